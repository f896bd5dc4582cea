"""A job that saves on SIGTERM loses no step by a suspension, and none by an eviction of one of its replicas."""

from __future__ import annotations

from support import UserClient
from support.jobs import pod_spec
from support.user_client import eventually
from testbed import kind

from .conftest import PATIENCE, Kubectl
from .test_reasons import KIND, a_job, all_run

#: Counts ten steps a second from its checkpoint on, and takes four seconds to save: longer than a failure leaves.
PROGRAM = """
import os, pathlib, signal, sys, time

history = pathlib.Path("/checkpoints", os.environ["RANK"])
lines = history.read_text().split() if history.exists() else []
step = int(lines[-1]) if lines else 0

def note(what):
    with history.open("a") as file:
        file.write(f"{what} {step}\\n")

def save(*_):
    time.sleep(4)
    note("saved")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
note("started")
while step < 400:
    time.sleep(0.1)
    step += 1
note("ended")
time.sleep(0 if os.environ["RANK"] == "0" else 3600)
"""


def test_a_job_that_saves_on_sigterm_loses_no_step(user: UserClient, kubectl: Kubectl):
    name = "saving"
    job = a_job(name, ["python3", "-c", PROGRAM], restart="ExitCode")
    folder = {"path": f"/var/tmp/{kubectl.command[-1]}", "type": "DirectoryOrCreate"}
    for role in ("Master", "Worker"):
        spec = pod_spec(job, role)
        spec |= {"nodeName": kind.WORKERS[0], "volumes": [{"name": "checkpoints", "hostPath": folder}]}
        spec["containers"][0] |= {
            "command": ["python3", "-c", PROGRAM],
            "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        }
    job["metadata"]["annotations"] = {"trainshed.dev/checkpoint-on-sigterm": "30s"}
    user.create(job)
    eventually(lambda: all_run(user, name), PATIENCE)
    user.patch_job(KIND, name, {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: not user.pods(name), PATIENCE)
    user.patch_job(KIND, name, {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: all_run(user, name), PATIENCE)
    user.delete("pods", f"{name}-master-0")
    eventually(lambda: user.state(KIND, name) == "Succeeded", 3 * PATIENCE)
    reader = a_pod_that_reads(folder)
    user.make("pods", reader)
    eventually(lambda: (user.pod("reader") or {})["status"].get("phase") == "Succeeded", PATIENCE)
    printed = kubectl("logs", "reader").split()
    for history in " ".join(printed).split("next"):
        words = history.split()
        steps = [int(step) for step in words[1::2]]
        assert words[::2][:5] == ["started", "saved"] * 2 + ["started"], history
        assert steps[1:4:2] == steps[2:5:2], history
        assert steps[0] == 0 < steps[1] < steps[3], history
    used = [message for _, reason, message in user.events(name) if reason == "GracePeriodUsed"]
    assert used
    assert all("ended with code 0" in message and "it had 30 s" in message for message in used), used


def a_pod_that_reads(folder: dict) -> dict:
    """Return a pod that prints the histories of both replicas."""
    spec = pod_spec(a_job("reader", ["sh", "-c", "cat /checkpoints/0; echo next; cat /checkpoints/1"]), "Worker")
    spec |= {"nodeName": kind.WORKERS[0], "restartPolicy": "Never"}
    spec["volumes"] = [{"name": "checkpoints", "hostPath": folder}]
    spec["containers"][0]["volumeMounts"] = [{"name": "checkpoints", "mountPath": "/checkpoints"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": spec}

"""The progress of trainings by their logs, from real containers by way of a kubelet: `make test-e2e` enables it."""

from __future__ import annotations

from support import UserClient
from support.jobs import pod_spec, pytorchjob, tfjob
from support.user_client import eventually
from testbed.images import PYTHON

from .conftest import PATIENCE

#: A bar as Keras writes it to a file: its states end with carriage returns, its epochs with line feeds.
KERAS = r"""
import sys, time
for epoch in range(1, 3):
    print(f"Epoch {epoch}/2")
    for step in range(1, 101):
        bar = f"\x1b[1m{step:>3}/100\x1b[0m \x1b[32m━━━\x1b[0m \x1b[1m0s\x1b[0m"
        sys.stdout.write(f"\r{bar} 9ms/step - loss: {1 / step:.4f}")
        sys.stdout.flush()
        time.sleep(0.1)
    print()
time.sleep(25)
"""
#: Lines of a loop in PyTorch.
TORCH = r"""
import time
for step in range(1, 101):
    print(f"step={step}/100 loss={1 / step:.6f}", flush=True)
    time.sleep(0.2)
time.sleep(25)
"""
JOBS = {
    "TFJob": (tfjob("keras", Worker=1), KERAS, "Worker"),
    "PyTorchJob": (pytorchjob("torch", Master=1), TORCH, "Master"),
}


def test_the_status_says_what_the_log_says_and_keeps_it(flags: str, user: UserClient) -> None:
    assert "--progress-logs" in flags, "make deploy VALUES='--set progress.logs.enabled=true'"
    for job, program, role in JOBS.values():
        job["metadata"]["annotations"] = {"trainshed.dev/progress": "Logs"}
        command = ["python3", "-c", program]
        pod_spec(job, role)["containers"][0] |= {"image": PYTHON, "command": command, "imagePullPolicy": "IfNotPresent"}
        user.create(job)
    for kind, (job, _, _) in JOBS.items():
        name = job["metadata"]["name"]
        eventually(lambda kind=kind, name=name: progress(user, kind, name) > 0, PATIENCE, every=1)
    for kind, (job, _, _) in JOBS.items():
        name = job["metadata"]["name"]
        eventually(lambda kind=kind, name=name: user.state(kind, name) == "Succeeded", PATIENCE, every=1)
        eventually(lambda kind=kind, name=name: progress(user, kind, name) >= 90, 60, every=1)
        metrics = user.job(kind, name)["status"]["trainerStatus"]["metrics"]
        assert [found["name"].lower() for found in metrics] == ["loss"]
        assert not [event for event in user.events(name) if "ProgressLogs" in str(event)]


def progress(user: UserClient, kind: str, name: str) -> int:
    """The percentage in the status, -1 if there is none."""
    return user.job(kind, name).get("status", {}).get("trainerStatus", {}).get("progressPercentage", -1)

"""Hangs on a real cluster: the operator asks the RAS of a pod through a port-forward, and acts on what it hears.

What answers is a small server that speaks NCCL's protocol: no GPU is needed.
"""

from __future__ import annotations

from pathlib import Path

from support import UserClient, ras_server
from support.jobs import pod_spec, pytorchjob
from support.user_client import eventually
from testbed.images import PYTHON

from .conftest import PATIENCE

KIND = "PyTorchJob"
SERVER = Path(ras_server.__file__).read_text()
#: Seconds: the deadline, the first question, the pause between two, and some for the status.
IN_TIME = 30 + 15 + 2 * 15 + PATIENCE


def submit(user: UserClient, name: str, *options: str, **annotations: str) -> None:
    """Create a job of three pods, in each of which the server answers for all ranks."""
    replicas = ("master-0", "worker-0", "worker-1")
    hosts = ",".join(f"{name}-{replica}" for replica in replicas)
    job = pytorchjob(name, policy={"backoffLimit": 3, "cleanPodPolicy": "All"}, Master=1, Worker=2)
    for role in ("Master", "Worker"):
        spec = pod_spec(job, role)
        spec["terminationGracePeriodSeconds"] = 1
        command = ["python3", "-c", SERVER, "--hosts", hosts, *options]
        spec["containers"][0] |= {"image": PYTHON, "command": command, "imagePullPolicy": "IfNotPresent"}
    given = {"hang-deadline": "30s"} | {key.replace("_", "-"): value for key, value in annotations.items()}
    job["metadata"]["annotations"] = {f"trainshed.dev/{key}": value for key, value in given.items()}
    user.create(job)
    eventually(lambda: status(user, name).get("ready") == "3/3", PATIENCE)


def status(user: UserClient, name: str) -> dict:
    return user.job(KIND, name).get("status", {})


def test_a_hang_is_found_by_what_nccl_says_and_restarts_a_job_that_asks_for_it(flags: str, user: UserClient):
    assert "--nccl-ras" in flags, "make deploy VALUES='--set hangs.ncclRas.enabled=true'"
    submit(user, "advances")
    submit(user, "waits", "--still-after", "10")
    submit(user, "again", "--still-after", "10", hang_action="Restart")
    before = {pod["metadata"]["uid"] for pod in user.pods("again")}
    (restart, *_) = eventually(lambda: status(user, "again").get("recentRestarts"), IN_TIME)
    assert (restart["class"], restart["replica"], restart["replicasRestarted"]) == ("Hang", "worker-0", 3)
    eventually(lambda: not before & {pod["metadata"]["uid"] for pod in user.pods("again")}, PATIENCE)
    stalled = eventually(lambda: status(user, "waits").get("stalled"), IN_TIME)
    (late,) = (pod for pod in user.pods("waits") if pod["metadata"]["name"] == "waits-worker-0")
    assert stalled["reason"] == "RanksWait"
    assert f"rank 1 (waits-worker-0 on {late['spec']['nodeName']}, pid 101, AllReduce" in stalled["message"]
    assert user.state(KIND, "waits") == "Running"
    said = ("Warning", f"{KIND}Stalled")
    assert eventually(lambda: [event[:2] for event in user.events("waits")].count(said), PATIENCE) == 1
    assert "stalled" not in status(user, "advances")

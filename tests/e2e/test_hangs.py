"""Hangs on a real cluster: the operator asks the RAS of a pod through a port-forward, and acts on what it hears.

What answers is a small server that speaks NCCL's protocol: no GPU is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import UserClient, ras_server
from support.jobs import pod_spec, pytorchjob
from support.kubectl import Kubectl
from support.release import HOME, NAME, Helm
from support.user_client import always, eventually
from testbed.images import PYTHON

from .conftest import PATIENCE

KIND = "PyTorchJob"
SERVER = Path(ras_server.__file__).read_text()
#: Seconds: the deadline, the first question, the pause between two, and some for the status.
IN_TIME = 30 + 15 + 2 * 15 + PATIENCE


@pytest.fixture(autouse=True, scope="module")
def asks(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The operator has the right to forward ports, and the flag, and has neither afterwards."""
    helm, values, run = Helm(4, kubeconfig), tmp_path_factory.mktemp("helm") / "values.json", Kubectl(kubeconfig, HOME)
    values.write_text(helm.values())
    for sets in (("hangs.ncclRas.enabled=true",), ()):
        helm.upgrade(values, *sets)
        run("rollout", "status", f"deployment/{NAME}", f"--timeout={PATIENCE}s", timeout=PATIENCE + 10)
        if sets:
            yield


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


def test_the_rank_that_others_wait_for_is_named_with_its_node(user: UserClient):
    submit(user, "waits", "--still-after", "10")
    stalled = eventually(lambda: status(user, "waits").get("stalled"), IN_TIME)
    (late,) = (pod for pod in user.pods("waits") if pod["metadata"]["name"] == "waits-worker-0")
    assert stalled["reason"] == "RanksWait"
    assert f"rank 1 (waits-worker-0 on {late['spec']['nodeName']}, pid 101, AllReduce" in stalled["message"]
    assert user.state(KIND, "waits") == "Running"
    assert [event[:2] for event in user.events("waits")].count(("Warning", f"{KIND}Stalled")) == 1


def test_a_job_that_asks_for_it_restarts_as_a_whole(user: UserClient):
    submit(user, "again", "--still-after", "10", hang_action="Restart")
    before = {pod["metadata"]["uid"] for pod in user.pods("again")}
    (restart, *_) = eventually(lambda: status(user, "again").get("recentRestarts"), IN_TIME)
    assert (restart["class"], restart["replica"], restart["replicasRestarted"]) == ("Hang", "worker-0", 3)
    eventually(lambda: status(user, "again").get("ready") == "3/3", PATIENCE)
    assert not before & {pod["metadata"]["uid"] for pod in user.pods("again")}


def test_a_job_whose_ranks_advance_is_not_stalled(user: UserClient):
    submit(user, "advances")
    always(lambda: "stalled" not in status(user, "advances"), 75, every=5)

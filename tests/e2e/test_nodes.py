"""Nodes that stop, are cut off or are drained: the job runs again elsewhere, and no two attempts run at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support import UserClient
from support.jobs import pod_spec
from support.user_client import eventually
from testbed import kind

from .conftest import PATIENCE, Kubectl
from .outage import Node
from .test_reasons import IDLE, KIND, a_job, all_run, runs

#: Seconds after which pods leave an unreachable node; Kubernetes' own default is 300.
SOON = 3
LEAVE = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SOON}
    for what in ("unreachable", "not-ready")
]
TAKEN_OFF = r"-0 on \S+ was evicted from its node because of a taint \(DeletionByTaintManager\) \d+s after start"


@pytest.fixture
def lost(user: UserClient) -> Iterator[Node]:
    """The node on which the job's worker runs once `started` has started it; in order again at the end."""
    node = Node(user, kind.WORKERS[1])
    yield node
    node.start()
    node.put_into_service()


@pytest.fixture
def cut_off(user: UserClient) -> Iterator[Node]:
    """The same node, whose network works again at the end."""
    node = Node(user, kind.WORKERS[1])
    yield node
    if not node.ready:
        node.connect()


def started(user: UserClient, name: str, node: Node) -> set[str]:
    """Start a job whose worker is on this node, as long as that is there; the uids of its pods once they run."""
    job = a_job(name, IDLE)
    preferred = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    terms = [{"weight": 100, "preference": {"matchExpressions": [preferred]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    pod_spec(job, "Worker")["affinity"] = affinity
    for role in ("Master", "Worker"):
        pod_spec(job, role)["tolerations"] = LEAVE
    user.create(job)
    eventually(lambda: all_run(user, name), PATIENCE)
    assert places(user)[f"{name}-worker-0"] == node.name
    return uids(user)


def places(user: UserClient) -> dict[str, str]:
    """The node of each pod."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in user.pods()}


def uids(user: UserClient) -> set[str]:
    """Return the UIDs of the pods."""
    return {pod["metadata"]["uid"] for pod in user.pods()}


def reports_lost_node(user: UserClient, name: str) -> None:
    """Check that the condition names the lost node and the restart of all replicas."""
    eventually(lambda: user.state(KIND, name) == "Restarting", PATIENCE)
    message = user.conditions(KIND, name)["Restarting"]["message"]
    assert re.search(rf"{TAKEN_OFF}.*; restarting all 2 replicas ", message), message


def is_counted_once(user: UserClient, name: str) -> None:
    """It runs again, after one restart, which does not count."""
    status = eventually(lambda: runs(user, name), PATIENCE)["status"]
    assert (status["failure"]["class"], status["failure"]["reason"]) == ("Disruption", "DeletionByTaintManager")
    assert status.get("restarts", 0) == 0
    assert len(status["recentRestarts"]) == 1, status["recentRestarts"]


def test_a_job_whose_node_has_stopped_runs_again_on_another(user: UserClient, lost: Node) -> None:
    before = started(user, "stopped", lost)
    lost.stop()
    reports_lost_node(user, "stopped")
    lost.take_out_of_service()
    is_counted_once(user, "stopped")
    assert not before & uids(user)
    assert lost.name not in places(user).values()


@pytest.mark.long
def test_a_job_whose_node_is_cut_off_waits_until_its_old_pods_are_known_to_be_gone(
    user: UserClient, cut_off: Node
) -> None:
    before = started(user, "cut", cut_off)
    cut_off.disconnect()
    reports_lost_node(user, "cut")
    # The worker may still train there: it is not replaced until its pod is gone.
    worker = next(pod for pod in user.pods() if pod["metadata"]["name"] == "cut-worker-0")
    assert worker["metadata"]["uid"] in before
    cut_off.connect()
    is_counted_once(user, "cut")
    assert not before & uids(user)


def test_a_drained_node_costs_no_try(user: UserClient, kubectl: Kubectl) -> None:
    node = Node(user, kind.WORKERS[1])
    before = started(user, "drained", node)
    try:
        kubectl("drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", timeout=PATIENCE)
        status = eventually(lambda: runs(user, "drained"), PATIENCE)["status"]
    finally:
        kubectl("uncordon", node.name)
    assert (status["failure"]["class"], status.get("restarts", 0)) == ("Disruption", 0)
    assert not before & uids(user)
    assert node.name not in places(user).values()

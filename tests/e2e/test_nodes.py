"""Nodes that stop, are cut off or are drained: the job runs again elsewhere, and no two attempts run at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support import Hand
from support.jobs import pod_spec
from support.user_client import eventually
from testbed import kind

from .conftest import PATIENCE, Kubectl
from .outage import Node
from .test_reasons import IDLE, KIND, a_job, all_run, runs

#: Pods leave a node that does not answer after so many seconds; Kubernetes' own default is 300.
SOON = 3
LEAVE = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SOON}
    for what in ("unreachable", "not-ready")
]
TAKEN_OFF = r"-0 on \S+ was evicted from its node because of a taint \(DeletionByTaintManager\) \d+ s after start"


@pytest.fixture
def lost(hand: Hand) -> Iterator[Node]:
    """The node on which the job's worker runs once `started` has started it; in order again at the end."""
    node = Node(hand, kind.WORKERS[1])
    yield node
    node.start()
    node.put_into_service()


@pytest.fixture
def cut_off(hand: Hand) -> Iterator[Node]:
    """The same node, whose network works again at the end."""
    node = Node(hand, kind.WORKERS[1])
    yield node
    if not node.ready:
        node.connect()


def started(hand: Hand, name: str, node: Node) -> set[str]:
    """Start a job whose worker is on this node, as long as that is there; the uids of its pods once they run."""
    job = a_job(name, IDLE)
    preferred = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    terms = [{"weight": 100, "preference": {"matchExpressions": [preferred]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    pod_spec(job, "Worker")["affinity"] = affinity
    for role in ("Master", "Worker"):
        pod_spec(job, role)["tolerations"] = LEAVE
    hand.create(job)
    eventually(lambda: all_run(hand, name), PATIENCE)
    assert places(hand)[f"{name}-worker-0"] == node.name
    return uids(hand)


def places(hand: Hand) -> dict[str, str]:
    """The node of each pod."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in hand.pods()}


def uids(hand: Hand) -> set[str]:
    """Which pods there are."""
    return {pod["metadata"]["uid"] for pod in hand.pods()}


def is_told(hand: Hand, name: str) -> None:
    """The condition says whose node was lost, and that all start again."""
    eventually(lambda: hand.state(KIND, name) == "Restarting", PATIENCE)
    message = hand.conditions(KIND, name)["Restarting"]["message"]
    assert re.search(rf"{TAKEN_OFF}.*; restarting all 2 replicas ", message), message


def is_counted_once(hand: Hand, name: str) -> None:
    """It runs again, after one restart, which does not count."""
    status = eventually(lambda: runs(hand, name), PATIENCE)["status"]
    assert (status["failure"]["class"], status["failure"]["reason"]) == ("Disruption", "DeletionByTaintManager")
    assert status.get("restarts", 0) == 0
    assert len(status["recentRestarts"]) == 1, status["recentRestarts"]


def test_a_job_whose_node_has_stopped_runs_again_on_another(hand: Hand, lost: Node) -> None:
    before = started(hand, "stopped", lost)
    lost.stop()
    is_told(hand, "stopped")
    lost.take_out_of_service()
    is_counted_once(hand, "stopped")
    assert not before & uids(hand)
    assert lost.name not in places(hand).values()


def test_a_job_whose_node_is_cut_off_waits_until_its_old_pods_are_known_to_be_gone(hand: Hand, cut_off: Node) -> None:
    before = started(hand, "cut", cut_off)
    cut_off.disconnect()
    is_told(hand, "cut")
    # The worker may still train there: as long as it is not known to be gone, none takes its place.
    worker = next(pod for pod in hand.pods() if pod["metadata"]["name"] == "cut-worker-0")
    assert worker["metadata"]["uid"] in before
    cut_off.connect()
    is_counted_once(hand, "cut")
    assert not before & uids(hand)


def test_a_drained_node_costs_no_try(hand: Hand, kubectl: Kubectl) -> None:
    node = Node(hand, kind.WORKERS[1])
    before = started(hand, "drained", node)
    try:
        kubectl("drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", timeout=PATIENCE)
        status = eventually(lambda: runs(hand, "drained"), PATIENCE)["status"]
    finally:
        kubectl("uncordon", node.name)
    assert (status["failure"]["class"], status.get("restarts", 0)) == ("Disruption", 0)
    assert not before & uids(hand)
    assert node.name not in places(hand).values()

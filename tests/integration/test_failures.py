"""Failures on a real API server: what settles, does not leave, does not start, and must not be lost."""

from __future__ import annotations

import time

import pytest

from support import Hand, Operator, Operators, Stage
from support.jobs import job
from support.user_client import eventually
from testbed.control_plane import ControlPlane

#: A minute is enough for all of these, on a machine that is busy with others, too.
MINUTE = 60.0


def annotated(name: str, knobs: dict[str, str], **fields) -> dict:
    """A PyTorchJob with annotations of ours."""
    wanted = job("PyTorchJob", name, **{"Master": 1, **fields})
    wanted["metadata"]["annotations"] = {f"trainshed.dev/{knob}": value for knob, value in knobs.items()}
    return wanted


def says(hand: Hand, kind: str, name: str = "a") -> str:
    """The message of a condition that is true, or nothing."""
    condition = hand.conditions("PyTorchJob", name).get(kind, {})
    return condition.get("message", "") if condition.get("status") == "True" else ""


def uid(hand: Hand, name: str) -> str:
    """Of the pod of that name, or nothing."""
    return (hand.pod(name) or {}).get("metadata", {}).get("uid", "")


@pytest.fixture
def keeper(elsewhere: ControlPlane, yard: Hand, operators: Operators) -> Operator:
    """An operator that keeps results."""
    return operators.begin(
        elsewhere.kubeconfig, "--no-leader-elect", "--track-results", f"--namespace={yard.namespace}"
    )


@pytest.mark.usefixtures("shared_operator")
def test_a_consequence_that_is_heard_of_first_does_not_end_the_job(hand: Hand, stage: Stage):
    hand.create(job("PyTorchJob", "a", Master=1, Worker=1, restart="ExitCode"))
    eventually(lambda: says(hand, "Running"), MINUTE)
    stage.end("a-worker-0", 1)
    stage.end("a-master-0", 137)
    eventually(lambda: says(hand, "Restarting") or says(hand, "Failed"), MINUTE)
    assert says(hand, "Failed") == ""
    assert hand.job("PyTorchJob", "a")["status"]["failure"]["pod"] == "a-master-0"


@pytest.mark.usefixtures("shared_operator")
def test_a_pod_whose_node_does_not_answer_is_replaced_once_its_user_says_so(hand: Hand):
    nodes = Stage(hand)  # not entered: nobody says that a pod is gone
    hand.create(annotated("a", {"force-delete-after": "1s"}))
    eventually(lambda: hand.pod("a-master-0"), MINUTE)
    hand.bind("a-master-0", "stage-0")
    nodes.run("a-master-0")
    eventually(lambda: says(hand, "Running"), MINUTE)
    before = uid(hand, "a-master-0")
    hand.delete("pods", "a-master-0", grace=1)
    eventually(lambda: uid(hand, "a-master-0") not in ("", before), MINUTE)
    assert hand.job("PyTorchJob", "a")["status"]["failure"]["class"] == "Disruption"


@pytest.mark.usefixtures("shared_operator")
def test_an_image_that_cannot_be_had_ends_a_job_that_has_a_deadline(hand: Hand):
    hand.create(annotated("a", {"startup-deadline": "3s"}))
    eventually(lambda: hand.pod("a-master-0"), MINUTE)
    hand.bind("a-master-0", "stage-0")
    waiting = {"reason": "ErrImagePull", "message": "pull access denied for x"}
    container = {"name": "pytorch", "image": "x:1", "imageID": "", "ready": False, "restartCount": 0}
    hand.set_pod_status("a-master-0", {"containerStatuses": [container | {"state": {"waiting": waiting}}]})
    eventually(lambda: says(hand, "Failed"), MINUTE)
    assert says(hand, "Failed").endswith("image x:1 could not be pulled (ErrImagePull): pull access denied for x")


def test_a_result_that_nobody_saw_is_not_lost(keeper: Operator, yard: Hand):
    nodes = Stage(yard)
    yard.create(annotated("a", {"track-results": "true"}))
    eventually(lambda: yard.pod("a-master-0"), MINUTE)
    yard.bind("a-master-0", "stage-0")
    nodes.run("a-master-0")
    eventually(lambda: says(yard, "Running"), MINUTE)
    keeper.kill()
    nodes.end("a-master-0", 0)
    yard.delete("pods", "a-master-0")
    assert uid(yard, "a-master-0"), "it is held"
    keeper.start()
    eventually(lambda: says(yard, "Succeeded"), MINUTE)
    eventually(lambda: yard.pod("a-master-0") is None, MINUTE)
    assert yard.job("PyTorchJob", "a")["status"]["replicaStatuses"]["Master"]["succeeded"] == 1


def test_the_pods_of_a_job_that_is_gone_are_let_go(keeper: Operator, yard: Hand):
    nodes = Stage(yard)
    yard.create(annotated("a", {"track-results": "true"}))
    eventually(lambda: yard.pod("a-master-0"), MINUTE)
    yard.bind("a-master-0", "stage-0")
    nodes.run("a-master-0")
    keeper.kill()
    yard.delete_job("PyTorchJob", "a")
    yard.delete("pods", "a-master-0", grace=0)
    time.sleep(0.5)
    assert uid(yard, "a-master-0"), "it is held"
    keeper.start()
    eventually(lambda: yard.pod("a-master-0") is None, MINUTE)
    assert keeper.complaints() == []

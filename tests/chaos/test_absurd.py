"""Absurd values that a real API server accepts in pods and statuses: the job reaches its end, no request is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from simulation.absurdities import JOB_STATUS, METADATA, STATUSES
from support import Hand, Operator, Refused, Stage
from support.audit_log import requests
from support.jobs import tfjob
from support.pods import names
from support.user_client import MERGE, eventually
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.apiserver]

USER = "trainshed"
#: Requests that a job may cost in all.
COST = 150
#: Levels of JSON in a document; decoders that recurse give up after a thousand.
DEEP = 3000
PODS = (
    "attempt just above what has so many digits",
    "attempt the largest",
    "attempt negative",
    "index huge",
    "role gone",
)
POD_STATUSES = (
    "phase unheard of",
    "restarts the smallest",
    "restarts the largest, twice",
    "code the smallest",
    "end before all times",
    "end at the last of times",
    "end long after the start",
    "words odd",
    "message of megabytes",
)
STATUS = (
    "attempts the largest",
    "attempts nobody's",
    "restarts the largest",
    "in place the largest",
    "start at the last of times",
    "next pods at the last of times",
    "restarts remembered absurd",
    "conditions odd",
    "labels nested",
)
ABSURD: dict[str, tuple[str, dict[str, Any]]] = {
    **{what: ("pod", METADATA[what]) for what in PODS},
    **{what: ("pod status", STATUSES[what]) for what in POD_STATUSES},
    **{what: ("job status", {"status": JOB_STATUS[what]}) for what in STATUS},
}


@pytest.fixture(autouse=True)
def nothing_is_said_of_an_own_error(operator: Operator) -> Iterator[None]:
    yield
    assert "Traceback" not in operator.log.read_text()
    assert operator.alive


@pytest.mark.parametrize("what", ABSURD)
def test_a_job_reaches_its_end_whatever_was_written(what: str, server: ControlPlane, hand: Hand, stage: Stage):
    where, patch = ABSURD[what]
    policy = {"activeDeadlineSeconds": 10**10, "ttlSecondsAfterFinished": 2**31 - 1}
    hand.create(tfjob("job", restart="OnFailure", policy=policy, Chief=1, Worker=2))
    eventually(lambda: hand.state("TFJob", "job") == "Running")
    pod = f"/api/v1/namespaces/{hand.namespace}/pods/job-worker-0"
    paths = {"pod": pod, "pod status": f"{pod}/status", "job status": hand.path("TFJob", "job", "status")}
    try:
        hand.call("PATCH", paths[where], patch, MERGE)
    except Refused as refused:
        pytest.skip(f"the server does not accept it: {refused}")
    time.sleep(1)
    stage.end("job-worker-1", 137)
    eventually(lambda: stage.created.count("job-worker-1") >= 2, 30)
    eventually(lambda: succeeds(hand, stage), 40, 0.5)
    asked = requests(server, USER, hand.namespace)
    assert [request for request in asked if request.code in (400, 413, 422)] == []
    assert len(asked) <= COST


def succeeds(hand: Hand, stage: Stage) -> bool:
    """Whether the job has succeeded; its chief does so whenever it runs, for the job may yet restart as a whole."""
    if hand.state("TFJob", "job") == "Succeeded":
        return True
    chief = hand.pod("job-chief-0")
    if chief and chief["status"]["phase"] == "Running":
        stage.end("job-chief-0", 0)
    return False


def test_a_document_nested_without_end_hides_no_other(hand: Hand, stage: Stage, operator: Operator):
    hand.create(tfjob("deep", Worker=1))
    eventually(lambda: hand.state("TFJob", "deep") == "Running")
    nested = "[" * DEEP + "]" * DEEP
    body = f'{{"status": {{"replicaStatuses": {{"Worker": {{"labelSelector": {{"a": {nested}}}}}}}}}}}'
    answer = hand.send("PATCH", hand.path("TFJob", "deep", "status"), body, MERGE)
    if answer.status >= 400:
        pytest.skip(f"the server does not accept it: {answer.data[:200]!r}")
    hand.create(tfjob("flat", Worker=1))
    eventually(lambda: hand.state("TFJob", "flat") == "Running")
    operator.stop()
    operator.start()
    hand.create(tfjob("later", Worker=1))
    eventually(lambda: hand.state("TFJob", "later") == "Running", 20)
    assert names(hand.pods("flat")) == ["flat-worker-0"]

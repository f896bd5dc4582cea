"""Malformed values that a real API server accepts in pods and statuses: the job finishes, no request is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from simulation.malformed_values import JOB_STATUS, METADATA, STATUSES
from support import FakeKubelet, Operator, Refused, UserClient
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
#: The simulation writes all that there are, and checks what the operator writes against the schema. Here are those of
#: which the API server has an opinion of its own: what it takes for a time, a number, a name, or for too large.
PODS = ("attempt just above what has so many digits", "role gone")
POD_STATUSES = ("phase unknown", "end at the last of times", "words odd", "message of megabytes")
STATUS = ("restarts the largest", "conditions odd", "labels nested")
ABSURD: dict[str, tuple[str, dict[str, Any]]] = {
    **{what: ("pod", METADATA[what]) for what in PODS},
    **{what: ("pod status", STATUSES[what]) for what in POD_STATUSES},
    **{what: ("job status", {"status": JOB_STATUS[what]}) for what in STATUS},
}


@pytest.fixture(autouse=True)
def the_log_has_no_traceback(operator: Operator) -> Iterator[None]:
    yield
    assert "Traceback" not in operator.log.read_text()
    assert operator.alive


@pytest.mark.fault("J18")
@pytest.mark.parametrize("what", ABSURD)
def test_a_job_finishes_with_malformed_values(what: str, server: ControlPlane, user: UserClient, kubelet: FakeKubelet):
    where, patch = ABSURD[what]
    policy = {"activeDeadlineSeconds": 10**10, "ttlSecondsAfterFinished": 2**31 - 1}
    user.create(tfjob("job", restart="OnFailure", policy=policy, Chief=1, Worker=2))
    eventually(lambda: user.state("TFJob", "job") == "Running")
    pod = f"/api/v1/namespaces/{user.namespace}/pods/job-worker-0"
    paths = {"pod": pod, "pod status": f"{pod}/status", "job status": user.path("TFJob", "job", "status")}
    try:
        user.call("PATCH", paths[where], patch, MERGE)
    except Refused as refused:
        pytest.skip(f"the server does not accept it: {refused}")
    time.sleep(1)
    kubelet.end("job-worker-1", 137)
    eventually(lambda: kubelet.created.count("job-worker-1") >= 2, 30)
    eventually(lambda: succeeds(user, kubelet), 40, 0.5)
    asked = requests(server, USER, user.namespace)
    assert [request for request in asked if request.code in (400, 413, 422)] == []
    assert len(asked) <= COST


def succeeds(user: UserClient, kubelet: FakeKubelet) -> bool:
    """Return whether the job has succeeded. Its chief succeeds whenever it runs: the job may restart as a whole."""
    if user.state("TFJob", "job") == "Succeeded":
        return True
    chief = user.pod("job-chief-0")
    if chief and chief["status"]["phase"] == "Running":
        kubelet.end("job-chief-0", 0)
    return False


@pytest.mark.fault("J18")
def test_a_deeply_nested_status_hides_no_other_job(user: UserClient, kubelet: FakeKubelet, operator: Operator):
    user.create(tfjob("deep", Worker=1))
    eventually(lambda: user.state("TFJob", "deep") == "Running")
    nested = "[" * DEEP + "]" * DEEP
    body = f'{{"status": {{"replicaStatuses": {{"Worker": {{"labelSelector": {{"a": {nested}}}}}}}}}}}'
    answer = user.send("PATCH", user.path("TFJob", "deep", "status"), body, MERGE)
    if answer.status >= 400:
        pytest.skip(f"the server does not accept it: {answer.data[:200]!r}")
    user.create(tfjob("flat", Worker=1))
    eventually(lambda: user.state("TFJob", "flat") == "Running")
    operator.stop()
    operator.start()
    user.create(tfjob("later", Worker=1))
    eventually(lambda: user.state("TFJob", "later") == "Running", 20)
    assert names(user.pods("flat")) == ["flat-worker-0"]

"""Clients of v1 find the state of a job, as one of v1's types, in every stored status."""

from __future__ import annotations

import pytest

from support import reported
from support.builders import FRAMEWORKS, a_job, a_pod, at, plan_for, replace, run_policy, running
from support.status_readers import by_type, misreadings
from trainshed.api import parse, status_codec
from trainshed.api.framework import JobDefaults
from trainshed.api.status import Status

JOB = a_job("PyTorchJob", restart="OnFailure", master=1, worker=1)
RUNNING = running(JOB)
PAIR = (a_pod("master-0", container="pytorch"), a_pod("worker-0", container="pytorch"))
WON = a_pod("master-0", "Succeeded", container="pytorch", code=0, ended=0)
EVICTED = replace(a_pod("worker-0", "Failed", container="pytorch"), reason="Evicted")
SUSPENDED = plan_for(replace(JOB, policy=run_policy(suspend=True)), *PAIR, status=RUNNING).status
#: A status for each moment of a job that lives for less than a second, and the state that clients of v1 are to find.
MOMENTS = {
    "new": (plan_for(JOB).status, "Created"),
    "a quota refuses its pods": (plan_for(JOB, refusal=("Forbidden", "exceeded quota")).status, "Created"),
    "runs": (RUNNING, "Running"),
    "restarts": (plan_for(JOB, PAIR[0], EVICTED, status=RUNNING).status, "Restarting"),
    "suspended": (SUSPENDED, "Suspended"),
    "resumed": (plan_for(JOB, status=SUSPENDED).status, "Created"),
    "invalid": (plan_for(replace(JOB, problems=("spec: Invalid value",))).status, "Failed"),
    "succeeded": (plan_for(JOB, WON, PAIR[1], status=RUNNING).status, "Succeeded"),
    "ends in a queue": (plan_for(replace(JOB, queued=True), WON, PAIR[1], status=RUNNING).status, "Running"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_clients_of_v1_find_the_state_at_every_moment(moment):
    status, state = MOMENTS[moment]
    conditions = status_codec.status_document(status)["conditions"]
    assert misreadings(conditions) == []
    assert by_type(conditions) == state


@pytest.mark.reported("08-waits-for-node")
def test_a_job_that_waits_for_a_node_is_created_to_clients_of_v1_and_blocked_in_its_state():
    document = reported.job("08-waits-for-node")
    job = parse.job(document, FRAMEWORKS["PyTorchJob"], JobDefaults())
    pod = a_pod("master-0", "Pending", job=job.name, containers=(), unplaced="Unschedulable", unschedulable="no node")
    waits = replace(pod, created=at(0))
    before = plan_for(job, waits).status
    after = status_codec.status_document(plan_for(job, waits, status=before, now=at(31)).status)
    assert [one["type"] for one in after["conditions"]] == ["Created"]
    assert (after["state"], after["blocked"]["reason"]) == ("Blocked", "Unschedulable")
    assert "no node" in after["blocked"]["message"]


@pytest.mark.parametrize("announced", ["SuccessCriteriaMet", "FailureTarget"])
def test_what_version_0_1_stored_among_the_conditions_is_understood(announced):
    listed = [{"type": kind, "status": "True"} for kind in (announced, "Blocked", "Created")]
    found = status_codec.parse_status({"status": {"conditions": listed}})
    assert [str(one.type) for one in found.conditions] == ["Created", announced]
    assert found.ending


@pytest.mark.parametrize("odd", [{"blocked": []}, {"blocked": "x"}, {"ending": {"type": "Running"}}, {"ending": 5}])
def test_odd_values_are_no_conditions(odd):
    assert status_codec.parse_status({"status": odd}) == Status()

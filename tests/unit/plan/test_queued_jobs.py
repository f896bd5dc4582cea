"""A job of a queue counts what its pods hold, and ends only when they hold nothing: then the queue gives it away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import (
    a_job,
    a_pod,
    at,
    deleted,
    event_reasons,
    message,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    states,
)
from trainshed.api import status_codec
from trainshed.api.job_annotations import END_GRACE
from trainshed.api.objects import Container
from trainshed.api.status import Condition, ConditionType


def active(status) -> dict[str, int]:
    found = status_codec.status_document(status).get("replicaStatuses", {})
    return {role: count.get("active", 0) for role, count in found.items()}


def pending(replica, **fields):
    return a_pod(replica, "Pending", node="node-0", **fields)


def exited(replica, code=0, *, sidecar=False, **fields):
    """A pod whose own container has ended, which the kubelet has not said of the pod; a sidecar may run on."""
    own = Container(
        "tensorflow", exit_code=code, started=at(0), finished=at(5), reason="Error" if code else "Completed"
    )
    others = (Container("logs", started=at(0)),) if sidecar else ()
    return a_pod(replica, "Running", containers=(own, *others), node="node-0", **fields)


def ended(replica, code=0, **fields):
    return a_pod(replica, "Failed" if code else "Succeeded", code=code, ended=5, **fields)


def test_pods_that_are_bound_to_a_node_count_while_the_job_is_suspended_until_they_are_gone():
    suspended = a_job(worker=3, policy=run_policy(suspend=True))
    pods = (pending("worker-0", deleting=True), a_pod("worker-1", deleting=True))
    status = plan_for(suspended, *pods, ended("worker-2"), status=running(a_job(worker=3)), now=at(6)).status
    assert active(status) == {"Worker": 2}
    assert active(plan_for(suspended, *pods[:1], status=status, now=at(7)).status) == {"Worker": 1}
    assert active(plan_for(suspended, status=status, now=at(8)).status) == {"Worker": 0}


def test_a_pod_without_a_node_counts_only_as_long_as_it_may_get_one():
    suspended = a_job(worker=2, policy=run_policy(suspend=True))
    pods = (a_pod("worker-0", "Pending"), a_pod("worker-1", "Pending", deleting=True))
    assert active(plan_for(suspended, *pods, now=at(6)).status) == {"Worker": 1}


def test_pods_that_do_not_run_yet_count_from_the_beginning_only_in_a_job_of_a_queue():
    pods = (pending("worker-0"), a_pod("worker-1"))
    assert active(plan_for(a_job(worker=2, queued=True), *pods).status) == {"Worker": 2}
    assert active(plan_for(a_job(worker=2), *pods).status) == {"Worker": 1}


def test_the_counts_of_a_queue_survive_being_stored():
    status = plan_for(a_job(worker=2, queued=True), pending("worker-0"), a_pod("worker-1")).status
    document = status_codec.status_document(status)
    assert document["replicaStatuses"]["Worker"]["notRunning"] == 1
    assert status_codec.parse_status({"status": document}).replica_statuses == status.replica_statuses


def test_a_job_of_a_queue_succeeds_when_the_kubelet_says_that_its_pods_have_ended():
    job = a_job(worker=2, queued=True)
    decided = plan_for(job, exited("worker-0"), exited("worker-1"), status=running(job), now=at(6))
    assert states(decided.status) == ["Created", "Running", "SuccessCriteriaMet"]
    assert active(decided.status) == {"Worker": 2}
    assert decided.status.completion is None
    assert deleted(decided) == []
    assert event_reasons(decided) == []
    waiting = plan_for(job, exited("worker-0"), ended("worker-1"), status=decided.status, now=at(7))
    assert active(waiting.status) == {"Worker": 1}
    assert deleted(waiting) == []
    last = plan_for(job, ended("worker-0"), ended("worker-1"), status=waiting.status, now=at(8))
    assert states(last.status) == ["Created", "-Running", "Succeeded"]
    assert message(last.status, "Succeeded") == message(decided.status, "SuccessCriteriaMet")
    assert last.status.completion == at(8)
    assert last.status.replica_statuses["Worker"].succeeded == 2
    assert active(last.status) == {"Worker": 0}
    assert event_reasons(last) == ["TFJobSucceeded"]


def test_a_job_without_a_queue_succeeds_when_its_containers_have_ended():
    job = a_job(worker=1)
    decided = plan_for(job, exited("worker-0", sidecar=True), status=running(job), now=at(6))
    assert states(decided.status) == ["Created", "-Running", "Succeeded"]


def test_a_job_of_a_queue_whose_pods_have_all_ended_succeeds_in_one_write():
    job = a_job(worker=1, queued=True)
    decided = plan_for(job, ended("worker-0"), status=running(job), now=at(6))
    assert states(decided.status) == ["Created", "-Running", "Succeeded"]


def test_a_pod_whose_sidecar_runs_on_is_stopped_after_a_while_under_the_policy_none():
    job = a_job(worker=2, queued=True)
    pods = (exited("worker-0", sidecar=True), exited("worker-1"))
    decided = plan_for(job, *pods, status=running(job), now=at(6))
    early = plan_for(job, *pods, status=decided.status, now=at(7))
    assert deleted(early) == []
    assert early.requeue_at == at(6 + END_GRACE)
    late = plan_for(job, *pods, status=decided.status, now=at(6 + END_GRACE))
    assert deleted(late) == ["mnist-worker-0"]
    assert "Succeeded" not in states(late.status)
    gone = plan_for(job, replace(pods[0], deleting=True), ended("worker-1"), status=late.status, now=at(50))
    assert "Succeeded" not in states(gone.status)
    assert "Succeeded" in states(plan_for(job, ended("worker-1"), status=late.status, now=at(60)).status)


def test_a_job_that_another_client_fails_after_its_end_was_announced_stops_its_pods_at_the_same_time():
    job = a_job(worker=2, queued=True)
    pods = (a_pod("worker-0"), ended("worker-1", 1))
    decided = plan_for(job, *pods, status=running(job), now=at(20)).status
    forged = Condition(ConditionType.FAILED, True, "Forged", "forged", at(21), at(21))
    status = replace(decided, conditions=(forged, decided.conditions[-1]))
    early = plan_for(job, *pods, status=status, now=at(22))
    assert (deleted(early), early.requeue_at) == ([], at(20 + END_GRACE))
    late = plan_for(job, *pods, status=early.status, now=at(20 + END_GRACE))
    assert (deleted(late), late.requeue_at) == (["mnist-worker-0"], None)
    assert states(plan_for(job, pods[1], status=late.status, now=at(60)).status) == ["Failed"]


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_other_policies_stop_what_runs_at_once(policy):
    job = a_job(ps=1, worker=1, queued=True, policy=run_policy(clean=policy))
    pods = (a_pod("ps-0"), ended("worker-0"))
    decided = plan_for(job, *pods, status=running(job), now=at(6))
    assert states(decided.status) == ["Created", "Running", "SuccessCriteriaMet"]
    stopping = plan_for(job, *pods, status=decided.status, now=at(6))
    assert "mnist-ps-0" in deleted(stopping)
    assert "mnist-worker-0" not in deleted(stopping) or policy == "All"
    last = plan_for(job, status=stopping.status, now=at(9)).status
    assert states(last) == ["Created", "-Running", "Succeeded"]
    assert {role: count.succeeded for role, count in last.replica_statuses.items()} == {"PS": 1, "Worker": 1}


def test_a_job_of_a_queue_fails_when_its_pods_are_gone_and_keeps_the_cause():
    job = a_job(worker=2, queued=True, policy=run_policy(deadline=60))
    pods = pods_of(job)
    decided = plan_for(job, *pods, status=replace(running(job), start=at(0)), now=at(61))
    assert states(decided.status) == ["Created", "Running", "FailureTarget"]
    assert deleted(plan_for(job, *pods, status=decided.status, now=at(61))) == ["mnist-worker-0", "mnist-worker-1"]
    last = plan_for(job, status=decided.status, now=at(64))
    assert states(last.status) == ["Created", "-Running", "Failed"]
    assert last.status.failure is not None
    assert last.status.limit_exceeded == "activeDeadlineSeconds"
    assert event_reasons(last) == ["TFJobFailed"]


def test_the_end_of_a_job_stays_decided_whatever_becomes_of_its_pods():
    job = a_job(worker=2, queued=True)
    decided = plan_for(job, a_pod("worker-0"), ended("worker-1", 1), status=running(job), now=at(20))
    assert "FailureTarget" in states(decided.status)
    again = plan_for(job, a_pod("worker-0"), status=decided.status, now=at(21))
    assert again.actions == ()
    assert again.status.replica_statuses["Worker"].failed == 1
    assert "Failed" in states(plan_for(job, status=again.status, now=at(60)).status)


def test_a_job_that_is_suspended_while_it_ends_stops_its_pods_at_once_and_ends():
    job = a_job(worker=2, queued=True)
    pods = (a_pod("worker-0"), ended("worker-1", 1))
    status = plan_for(job, *pods, status=running(job), now=at(20)).status
    suspended = replace(job, policy=run_policy(suspend=True))
    stopping = plan_for(suspended, *pods, status=status, now=at(21))
    assert deleted(stopping) == ["mnist-worker-0"]
    assert "Suspended" not in states(stopping.status)
    assert "Failed" in states(plan_for(suspended, pods[1], status=stopping.status, now=at(24)).status)


def test_a_pending_pod_that_is_deleted_in_a_job_of_a_queue_is_not_taken_for_one_that_ran():
    job = a_job("PyTorchJob", master=1, worker=1, queued=True)
    pods = [a_pod("master-0", container="pytorch"), pending("worker-0", container="pytorch")]
    status = plan_for(job, *pods, now=at(1)).status
    assert "Running" in states(status)
    decided = plan_for(job, pods[0], status=status, now=at(5))
    assert "Restarting" not in states(decided.status)


LABELS = st.sampled_from(("worker", "Worker", "chief", "evaluator", "other", ""))
PODS = st.builds(
    lambda name, phase, role, **fields: replace(a_pod(name, phase), role=role, **fields),
    st.sampled_from(
        [*(f"{role}-{index}" for role in ("chief", "worker", "ps") for index in range(4)), "worker-07", "x"]
    ),
    st.sampled_from(("Pending", "Running", "Unknown", "Succeeded", "Failed")),
    LABELS,
    index=st.integers(-1, 4),
    job=LABELS,
    node=st.sampled_from(("", "node-0")),
    deleting=st.booleans(),
)
#: A status before the plan, as the job was with other roles.
STATUSES = (None, running(a_job(chief=1, worker=2)), running(a_job(evaluator=1, ps=3)))
JOBS = (
    a_job(worker=2),
    a_job(chief=1, worker=3),
    a_job(ps=1, evaluator=2),
    replace(a_job(worker=1), groups=(), problems=("spec: no",)),
)


@given(
    st.sampled_from(JOBS),
    st.lists(PODS, max_size=6, unique_by=lambda pod: pod.name),
    st.sampled_from(STATUSES),
    st.data(),
)
def test_in_a_queue_as_many_replicas_are_active_as_pods_hold_resources(job, pods, before, data):
    suspended = data.draw(st.booleans())
    job = replace(job, queued=not suspended or data.draw(st.booleans()), policy=run_policy(suspend=suspended))
    holding = sum(pod.holds_resources for pod in pods)
    for now in (20, 60):
        after = plan_for(job, *pods, status=before, now=at(now)).status
        assert sum(active(after).values()) == (0 if after.over else holding)
        assert not (after.over and holding), "the queue gives the quota of a job that is over away"
        before = after


@pytest.mark.parametrize(
    ("spec", "pods", "counts"),
    [
        ({"chief": 1, "worker": 2}, {"worker-0": "other", "worker-1": "chief"}, {"Chief": 0, "Worker": 2}),
        ({"chief": 1}, {"worker-0": "worker", "worker-1": "worker"}, {"Chief": 0, "Worker": 2}),
        ({"chief": 1, "evaluator": 2}, {"worker-0": "worker"}, {"Chief": 0, "Evaluator": 0, "Worker": 1}),
        ({"chief": 1, "worker": 1}, {"worker-7": "worker", "worker": "worker"}, {"Chief": 1, "Worker": 1}),
    ],
    ids=["labels changed", "role removed", "role renamed", "names that no replica has"],
)
def test_the_pods_of_a_suspended_job_count_for_the_roles_that_their_names_say(spec, pods, counts):
    before = running(a_job(chief=1, worker=2))
    job = a_job(**spec, queued=True, policy=run_policy(suspend=True))
    left = [replace(a_pod(name, deleting=True), role=label) for name, label in pods.items()]
    status = plan_for(job, *left, status=before, now=at(6)).status
    assert active(status) == counts
    gone = plan_for(job, status=status, now=at(9)).status
    assert active(gone) == dict.fromkeys((group.role for group in job.groups), 0)


def test_a_pod_that_leaves_is_waited_for_by_its_name_before_its_index_is_used_again():
    job = a_job("PyTorchJob", master=1, worker=3)
    pods = [replace(pod, role="other", index=0, deleting=pod.name.endswith("2")) for pod in pods_of(job)]
    smaller = plan_for(a_job("PyTorchJob", master=1, worker=2), *pods, status=running(job)).status
    assert smaller.scaled_down_to == {"Worker": 2}

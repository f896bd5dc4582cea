"""The fields of the status that a restart changes, and those that it keeps, for each scope."""

from __future__ import annotations

import pytest

from support.builders import FRAMEWORKS, a_job, a_pod, at, deleted, plan_for, pods_of, replace, running
from trainshed.api.indexes import Indexes
from trainshed.plan import restarts
from trainshed.plan.restarts import FailureGroup
from trainshed.plan.retry_delay import backoff_seconds

PS = a_job(restart="ExitCode", chief=1, ps=1, worker=2)
BY_ROLE = a_job(restart="ExitCode", chief=1, ps=1, worker=2, scope="Role")
DDP = a_job("PyTorchJob", master=1, worker=2, restart="OnFailure")


def failed(replica, code=137, ended=10.0, container="tensorflow", **fields):
    return a_pod(replica, "Failed", code=code, ended=ended, container=container, **fields)


def test_two_roles_that_fail_restart_both_under_scope_role():
    pods = pods_of(BY_ROLE, failed("ps-0"), failed("worker-1"))
    decision = plan_for(BY_ROLE, *pods, status=running(BY_ROLE), now=at(13))
    assert decision.status.attempts == {"PS": 1, "Worker": 1}
    assert sorted(deleted(decision)) == ["mnist-ps-0", "mnist-worker-0", "mnist-worker-1"]


def test_a_restarted_role_starts_with_no_succeeded_replicas():
    done = a_pod("worker-0", "Succeeded", code=0, ended=5.0)
    before = plan_for(BY_ROLE, *pods_of(BY_ROLE, done), status=running(BY_ROLE), now=at(6)).status
    assert before.replica_statuses["Worker"].succeeded == 1
    after = plan_for(BY_ROLE, *pods_of(BY_ROLE, done, failed("worker-1")), status=before, now=at(13)).status
    assert after.replica_statuses["Worker"].succeeded == 0
    assert after.replica_statuses["Worker"].done == Indexes()


def test_other_fields_of_a_restarted_role_are_kept():
    status = plan_for(PS, *pods_of(PS), status=running(PS), now=at(6)).status
    cleared = restarts.clear_completions(status, ("Worker",))
    assert cleared.replica_statuses["Worker"] == replace(status.replica_statuses["Worker"], succeeded=0, done=Indexes())
    assert cleared.replica_statuses["Worker"].active == 2


def test_container_restarts_of_a_role_that_goes_on_stay_in_their_count():
    job = a_job(restart="OnFailure", chief=1, ps=1, worker=1, scope="Role")
    pods = pods_of(job, a_pod("ps-0", restarted=2), a_pod("worker-0", "Running", deleting=True, restarted=1))
    retries = plan_for(job, *pods, status=running(job), now=at(13)).status.retries
    assert (retries.container_restarts, retries.deleted_pod_container_restarts) == (2, 1)


def test_a_pod_that_disappeared_was_disrupted_now():
    pods = [pod for pod in pods_of(DDP) if pod.name != "mnist-worker-0"]
    failure = plan_for(DDP, *pods, status=running(DDP), now=at(20)).status.failure
    assert (failure.kind, failure.time, failure.node) == ("Disruption", at(20), "")


@pytest.mark.parametrize(("seconds_later", "counted"), [(0, 1), (1, 2)])
def test_a_failure_up_to_the_cascade_window_after_another_is_not_counted(seconds_later, counted):
    window = FRAMEWORKS["TFJob"].defaults.cascade_window
    pods = pods_of(PS, failed("ps-0"), failed("worker-1", ended=10 + window + seconds_later))
    assert plan_for(PS, *pods, status=running(PS), now=at(60)).status.retries.used == counted


def test_the_root_cause_is_the_first_failure_that_no_other_caused():
    cause = plan_for(PS, *pods_of(PS, failed("ps-0")), status=running(PS), now=at(13)).status.failure
    cascading = replace(cause, kind="Cascading", pod="mnist-worker-0")
    first, second, *_ = PS.all_replicas
    failures = FailureGroup({first: cascading, second: cause}, 1)
    assert restarts.root_cause(failures) == (second, cause)
    assert restarts.root_cause(FailureGroup({first: cascading}, 0)) == (first, cascading)


def test_the_back_off_differs_from_job_to_job():
    assert len({backoff_seconds(f"uid-{number}", 9) for number in range(20)}) > 5
    status = plan_for(PS, *pods_of(PS, failed("ps-0")), status=running(PS), now=at(13)).status
    streak = replace(status, retries=replace(status.retries, consecutive_failures=8))
    jobs = [replace(PS, uid=f"uid-{number}") for number in range(20)]
    retries = [
        plan_for(job, *pods_of(job, failed("worker-1", ended=40.0)), status=streak, now=at(43)).status for job in jobs
    ]
    assert len({status.retries.next_retry_time for status in retries}) > 5


def test_a_sidecar_that_started_later_does_not_lengthen_the_recovery_time():
    pods = pods_of(DDP, failed("worker-1", container="pytorch"))
    status = plan_for(DDP, *pods, status=running(DDP), now=at(13)).status
    pods = [
        replace(pod, attempt=1, containers=(*started(pod, 50, "sidecar"), *started(pod, 24))) for pod in pods_of(DDP)
    ]
    found = plan_for(DDP, *pods, status=status, now=at(60)).status.recent_restarts[0]
    assert found.recovery_seconds == 14


def started(pod, seconds, name=""):
    return tuple(replace(container, started=at(seconds), name=name or container.name) for container in pod.containers)

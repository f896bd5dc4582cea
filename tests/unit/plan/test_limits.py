"""At a limit running pods are stopped, whatever cleanPodPolicy says; the counts of a failed job follow its pods."""

from __future__ import annotations

import pytest

from support.builders import (
    a_job,
    a_pod,
    at,
    deleted,
    message,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    services,
    states,
)
from trainshed.api.actions import DeletePod, DeleteService
from trainshed.api.job import RunPolicy
from trainshed.api.status import ReplicaStatus, Retries, Status
from trainshed.api.status_codec import status_patch

PENDING, ENDED = a_pod("worker-1", "Pending"), a_pod("worker-2", "Succeeded", code=0)


def failed(job, *pods, now=60.0):
    """The status of a job that fails with these pods, and its pods."""
    here = pods_of(job, *pods)
    over = plan_for(job, *here, status=running(job), now=at(now)).status
    assert states(over)[-1] == "Failed"
    return here, over


LIMITS = {
    "activeDeadlineSeconds": {"policy": run_policy(deadline=60)},
    "backoffLimit": {"policy": run_policy(backoff_limit=0)},
    "trainshed.dev/startup-deadline": {"startup_deadline": 60},
}


@pytest.mark.parametrize("limit", LIMITS)
def test_running_and_pending_pods_are_stopped_at_a_limit_and_finished_ones_stay(limit):
    job = a_job(worker=4, **LIMITS[limit])
    failure = [a_pod("worker-3", "Failed", code=1)] if limit == "backoffLimit" else []
    here, over = failed(job, replace(PENDING, created=at(0), containers=()), ENDED, *failure)
    assert over.limit_exceeded == limit
    gone = ["mnist-worker-0", "mnist-worker-1", *(() if failure else ("mnist-worker-3",))]
    first = plan_for(job, *here, status=over)
    assert (deleted(first), services(first, DeleteService)) == (gone, [])
    versions = [action.version for action in first.actions if isinstance(action, DeletePod)]
    assert versions == ["1"] * len(gone), "a pod that has finished since stays"
    leaving = [replace(pod, deleting=pod.name in gone) for pod in here]
    assert services(plan_for(job, *leaving, status=over), DeleteService) == gone


def test_container_restarts_in_place_end_at_their_limit():
    job = a_job(worker=2, restart="OnFailure", policy=run_policy(backoff_limit=2))
    here, over = failed(job, a_pod("worker-0", restarted=2))
    assert over.limit_exceeded == "backoffLimit"
    assert deleted(plan_for(job, *here, status=over)) == ["mnist-worker-0", "mnist-worker-1"]


def test_after_another_failure_pods_run_on_under_none():
    job = a_job(worker=2)
    here, over = failed(job, a_pod("worker-0", "Failed", code=1))
    assert over.limit_exceeded == ""
    assert deleted(plan_for(job, *here, status=over)) == []


def test_all_deletes_finished_pods_at_a_limit_too():
    job = a_job(worker=3, policy=run_policy(deadline=60, clean="All"))
    here, over = failed(job, PENDING, ENDED)
    assert deleted(plan_for(job, *here, status=over)) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]


def test_a_job_that_succeeds_in_spite_of_an_earlier_limit_has_exceeded_none():
    job = a_job(worker=1)
    status = replace(running(job), limit_exceeded="backoffLimit")
    assert plan_for(job, a_pod("worker-0", "Succeeded", code=0), status=status).status.limit_exceeded == ""


def test_the_counts_of_a_failed_job_follow_its_pods():
    job = a_job(worker=3, policy=RunPolicy(deadline=60))
    here, over = failed(job, *(a_pod(f"worker-{index}", ready=True) for index in (0, 1)), ENDED)
    assert over.replica_statuses["Worker"] == replace(counts := over.replica_statuses["Worker"], active=2, ready=2)
    leaving = [replace(here[0], deleting=True), here[2]]
    after = plan_for(job, *leaving, status=over).status
    assert after == replace(over, replica_statuses={"Worker": replace(counts, active=1, ready=0)})
    assert not after.must_precede(over), "the pods show it again"
    gone = plan_for(job, here[2], status=after).status.replica_statuses["Worker"]
    assert (gone.active, gone.ready, gone.succeeded) == (0, 0, 1), "what it came to stays"


def test_roles_that_the_job_no_longer_has_run_nothing():
    job = a_job(worker=1, policy=RunPolicy(deadline=60))
    _, over = failed(job)
    known = replace(over, replica_statuses=over.replica_statuses | {"PS": ReplicaStatus(active=1, failed=1)})
    assert plan_for(job, status=known).status.replica_statuses["PS"] == ReplicaStatus(failed=1)


def test_counts_stay_while_the_spec_is_invalid():
    job = a_job(worker=1, policy=RunPolicy(deadline=60))
    here, over = failed(job)
    assert plan_for(replace(job, problems=("no",)), *here, status=over).status == over


def test_a_deadline_is_the_failure_of_the_job_and_names_the_one_before():
    job = a_job(worker=2, policy=run_policy(deadline=60))
    _, over = failed(job)
    expected = "the job was active longer than activeDeadlineSeconds: limit 60s; 2 of 2 replicas running"
    assert (over.failure.reason, over.failure.pod, over.failure.time) == ("DeadlineExceeded", "", at(60))
    assert over.failure.message == expected
    before = replace(running(job), failure=replace(over.failure, message="worker-0 was OOMKilled"))
    later = plan_for(job, *pods_of(job), status=before, now=at(60)).status.failure
    assert later.message == f"{expected}; the failure before: worker-0 was OOMKilled"
    assert plan_for(job, status=replace(before, failure=replace(over.failure, message="")), now=at(60)).status.failure


def test_an_invalid_spec_is_the_failure_of_the_job():
    failure = plan_for(replace(a_job(worker=1), problems=("spec: no", "spec: neither"))).status.failure
    assert (failure.reason, failure.message) == ("InvalidSpec", "spec: no; spec: neither")


def test_restarts_in_the_column_are_those_that_count_and_those_of_containers():
    retries = Retries(used=2, container_restarts=3, deleted_pod_container_restarts=4)
    columns = status_patch(a_job(worker=1), Status(), Status(retries=retries))["status"]
    assert (columns["restarts"], columns["totalRestarts"]) == (2, 9)


def test_a_message_says_how_far_several_failures_exceed_the_limit_at_once():
    job = a_job(worker=2, restart="ExitCode", scope="Replica", policy=run_policy(backoff_limit=2))
    status = replace(running(job), retries=Retries(used=1))
    dead = [a_pod(f"worker-{index}", "Failed", code=137, ended=20.0 * index) for index in range(2)]
    words = message(plan_for(job, *dead, status=status, now=at(60)).status, "Failed")
    assert "backoff limit: 1 of 2 restarts used, and 2 more needed at once; last failure: worker-0 " in words

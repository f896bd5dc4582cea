"""The attempts of a status that was overwritten or restored are recovered from the pods."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, running, seen
from support.replace import replace
from trainshed.api.actions import CreatePod, DeletePod
from trainshed.api.coerce import LARGEST
from trainshed.api.job import RunPolicy
from trainshed.api.status import ConditionType, Retries, Status
from trainshed.plan import MAX_ATTEMPTS_AHEAD, restore_attempts

JOB = a_job("JAXJob", worker=2, restart="ExitCode", policy=RunPolicy(backoff_limit=3))


def worn(attempt: int, *pods, job=JOB):
    """Return the pods of the job with this attempt."""
    return tuple(replace(pod, attempt=attempt) for pod in pods_of(job, *pods))


def test_a_wiped_status_knows_its_attempts_and_its_tries_again():
    plan = plan_for(JOB, *worn(2), status=Status())
    assert plan.status.attempts == {"Worker": 2}
    assert plan.status.retries.used == 2
    assert not [action for action in plan.actions if isinstance(action, (CreatePod, DeletePod))], "no pod is changed"
    assert plan.status.must_precede(Status()), "it is stored before anything is done"


def test_a_status_that_was_set_back_knows_what_happened_since():
    before = replace(running(JOB), attempts={"Worker": 1}, retries=Retries(used=1))
    plan = plan_for(JOB, *worn(3), status=before)
    assert plan.status.attempts == {"Worker": 3}
    assert plan.status.retries.used == 3


def test_after_a_wipe_the_back_off_limit_holds():
    failed = worn(3, a_pod("worker-0", "Failed", code=137, container="jax"))
    plan = plan_for(JOB, *failed, status=Status(), now=at(60))
    assert plan.status.true(ConditionType.FAILED)


def test_after_a_wipe_a_restart_is_an_attempt_that_no_pod_wears_yet():
    failed = worn(2, a_pod("worker-0", "Failed", code=137, container="jax"))
    plan = plan_for(JOB, *failed, status=Status())
    assert plan.status.attempts == {"Worker": 3}
    assert {action.name for action in plan.actions} == {pod.name for pod in failed}


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        (worn(0), Status()),
        (worn(2), replace(running(JOB), attempts={"Worker": 2})),
        (worn(1), replace(running(JOB), attempts={"Worker": 2})),
        ((), Status()),
        ((replace(worn(5)[0], name="mnist-worker-7"),), Status()),
    ],
    ids=["the first attempt", "as it was stored", "an earlier one", "no pods", "a pod without a replica"],
)
def test_what_is_in_order_stays_as_it_is(pods, status):
    snapshot = seen(JOB, *pods, status=status)
    assert restore_attempts(snapshot) is snapshot


def test_a_verdict_stays_as_it_is():
    over = plan_for(JOB, *worn(0, *(a_pod(f"worker-{i}", "Succeeded", code=0, container="jax") for i in (0, 1)))).status
    assert over.over
    snapshot = seen(JOB, *worn(2), status=over)
    assert restore_attempts(snapshot) is snapshot


def test_each_role_knows_its_own():
    job = a_job(chief=1, worker=2, restart="ExitCode", scope="Role")
    pods = [replace(pod, attempt=4 if pod.role == "worker" else 1) for pod in pods_of(job)]
    before = replace(running(job), attempts={"Chief": 1, "Worker": 3})
    status = plan_for(job, *pods, status=before).status
    assert status.attempts == {"Chief": 1, "Worker": 4}
    assert status.retries.used == 1


@pytest.mark.parametrize("attempt", [MAX_ATTEMPTS_AHEAD + 1, LARGEST])
def test_a_pod_that_is_absurdly_far_ahead_tells_nothing_and_is_made_again(attempt):
    pods = (*worn(0)[:1], *worn(attempt)[1:])
    plan = plan_for(JOB, *pods, status=running(JOB))
    assert (plan.status.attempts, plan.status.retries.used) == ({}, 0)
    assert [action.name for action in plan.actions if isinstance(action, DeletePod)] == [pods[1].name]


def test_as_far_ahead_as_a_status_may_have_forgotten_is_believed():
    assert plan_for(JOB, *worn(MAX_ATTEMPTS_AHEAD), status=Status()).status.attempts == {"Worker": MAX_ATTEMPTS_AHEAD}


def test_attempts_of_roles_that_the_job_does_not_have_are_dropped():
    before = replace(running(JOB), attempts={"Worker": 2, "Unknown": LARGEST})
    plan = plan_for(JOB, *worn(2), status=before)
    assert plan.status.attempts == {"Worker": 2}
    assert plan.actions == ()


@pytest.mark.parametrize(
    "job",
    [
        replace(JOB, policy=RunPolicy(managed_elsewhere=True)),
        replace(JOB, deleting=True),
        replace(JOB, groups=(), problems=("spec: no",)),
    ],
    ids=["managed elsewhere", "deleted", "invalid"],
)
def test_the_status_of_a_job_that_is_not_run_stays_as_it_is(job):
    snapshot = seen(job, *worn(2), status=Status(attempts={"Unknown": 7}), services=())
    assert restore_attempts(snapshot) is snapshot


def test_after_the_largest_attempt_comes_the_first_and_its_pods_are_no_others():
    job = a_job(worker=2, restart="ExitCode")
    before = replace(running(job), attempts={"Worker": LARGEST})
    pods = pods_of(job, a_pod("worker-0", "Failed", code=137, attempt=LARGEST), attempt=LARGEST)
    decision = plan_for(job, *pods, status=before)
    assert decision.status.attempts == {"Worker": 0}
    assert {action.name for action in decision.actions} == {pod.name for pod in pods}
    assert plan_for(job, *pods, status=decision.status).status.attempts == {"Worker": 0}

"""What is foreseen is what the plan says: whoever would be harmed wants a look, and nothing else does."""

from __future__ import annotations

import pytest

from make import a_job, a_pod, at, pods_of, replace, run_policy, running, seen
from trainshed.api.dependent import CONFIG_MAPS, Dependent
from trainshed.api.status import Condition, Kind, Status
from trainshed.cli.foresight import Grade, foresee

JOB = a_job(worker=2)


def over(kind: Kind, completion=0.0) -> Status:
    verdict = Condition(kind, true=True, reason="TFJobDone", message="", updated=at(0), changed=at(0))
    return Status((verdict,), start=at(0), completion=at(completion))


def outlook(job, *pods, status=None, **fields):
    found = foresee(seen(job, *pods, status=status or running(job), **fields))
    return found.grade, "; ".join(found.words)


def test_a_job_that_runs_goes_on_as_it_is():
    assert outlook(JOB, *pods_of(JOB)) == (Grade.SAME, "")
    found = foresee(seen(JOB, *pods_of(JOB), status=running(JOB)))
    assert str(found) == "TFJob ml/mnist (Running, 2 pods): goes on as it is"


def test_what_is_missing_is_made():
    grade, words = outlook(a_job(worker=5), status=Status())
    assert grade is Grade.GOES_ON
    assert "pods mnist-worker-0, mnist-worker-1, mnist-worker-2 and 2 more made" in words
    assert "Created=True" in words
    assert "Service" not in words
    assert "Services mnist-worker-0, mnist-worker-1 made" in outlook(JOB, *pods_of(JOB), services=())[1]
    assert str(foresee(seen(a_job(worker=1)))).startswith("TFJob ml/mnist (New, 0 pods): Created=True")


def test_what_a_job_owns_besides_is_told_by_its_kind():
    job = a_job("MPIJob", launcher=1, worker=1)
    stale = Dependent(CONFIG_MAPS, "mnist-config", "c", "1", "job-uid", "ml", "", {"data": {}})
    words = foresee(replace(seen(job, *pods_of(job), status=running(job)), dependents=(stale,))).words
    assert "ConfigMap mnist-config changed" in words
    assert "Role mnist-launcher made" in words


def test_a_restart_wants_a_look():
    job = a_job(worker=2, restart="ExitCode")
    grade, words = outlook(job, *pods_of(job, a_pod("worker-1", "Failed", code=137)))
    assert grade is Grade.LOOK
    assert "pods mnist-worker-0, mnist-worker-1 deleted" in words
    told = "worker-1 was killed by SIGKILL (137) 0 s after start; restarting all 2 replicas in 1 s (restart 1)"
    assert f"Restarting=True (job mnist is restarting because Worker replica(s) failed. {told})" in words
    assert "Running goes" in words


def test_a_lone_pod_that_is_replaced_wants_a_look_too():
    job = a_job(worker=1, ps=1, restart="ExitCode")
    grade, words = outlook(job, *pods_of(job, a_pod("worker-0", "Failed", code=137)))
    assert grade is Grade.LOOK
    assert "pod mnist-worker-0 deleted" in words


def test_a_verdict_is_told_and_what_follows_from_it():
    job = a_job(worker=2, policy=run_policy(clean="All"))
    grade, words = outlook(job, *pods_of(job, a_pod("worker-0", "Succeeded", code=0)))
    assert grade is Grade.GOES_ON
    assert "Succeeded=True" in words
    assert "Running=False" in words
    assert "pods mnist-worker-0, mnist-worker-1 deleted" in words


def test_a_job_that_fails_wants_a_look():
    job = a_job(worker=2, policy=run_policy(deadline=60))
    grade, words = outlook(job, *pods_of(job), now=at(61))
    assert grade is Grade.LOOK
    assert "active longer than specified deadline" in words


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.FAILED])
def test_what_is_over_stays_as_it_is(kind):
    assert outlook(JOB, *pods_of(JOB), status=over(kind)) == (Grade.SAME, "")


def test_a_job_whose_time_is_up_goes():
    job = a_job(worker=2, policy=run_policy(ttl=60))
    grade, words = outlook(job, *pods_of(job), status=over(Kind.SUCCEEDED), now=at(61))
    assert (grade, words) == (Grade.GOES_ON, "deleted: the time that it was to be kept is up")


def test_pods_of_a_suspended_job_go_without_a_look():
    job = a_job(worker=2, policy=run_policy(suspend=True))
    grade, words = outlook(job, *pods_of(job))
    assert grade is Grade.GOES_ON
    assert "pods mnist-worker-0, mnist-worker-1 deleted" in words


def test_what_another_controller_manages_is_left_alone():
    job = a_job(worker=2, policy=run_policy(managed_elsewhere=True))
    assert outlook(job) == (Grade.SAME, "left alone: another controller manages it")


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (Status(), "it would fail at once"),
        (running(JOB), "it would be left alone"),
        (over(Kind.FAILED), "it is over, and stays as it is"),
    ],
)
def test_a_spec_that_is_not_accepted_wants_a_look(status, fate):
    job = replace(JOB, replicas=(), problems=("spec.a: Invalid value",))
    grade, words = outlook(job, status=status)
    assert grade is (Grade.GOES_ON if status.over else Grade.LOOK)
    assert fate in words
    assert "spec.a: Invalid value" in words

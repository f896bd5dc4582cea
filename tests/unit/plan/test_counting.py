"""The failures that count against backoffLimit: not those that another failure caused."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, run_policy, running, states


def killed(replica: str, seconds: float, **fields):
    """Return a pod whose container was killed this number of seconds after the start."""
    return a_pod(replica, "Failed", code=137, ended=seconds, container="tensorflow", **fields)


def a_job_with_ps(limit: int):
    """Return a job whose replicas are restarted one by one."""
    return a_job(restart="ExitCode", chief=1, ps=1, worker=1, policy=run_policy(backoff_limit=limit))


@pytest.mark.fault("H7")
def test_two_that_fall_together_count_as_one():
    job = a_job_with_ps(3)
    fallen = killed("ps-0", 10), killed("worker-0", 12)
    decision = plan_for(job, *pods_of(job, *fallen), status=running(job), now=at(13))
    assert set(decision.status.pending_replacement) == {"ps-0-uid", "worker-0-uid"}
    assert decision.status.retries.used == 1


def test_a_consequence_uses_up_nothing():
    job = a_job_with_ps(1)
    first = plan_for(job, *pods_of(job, killed("ps-0", 10)), status=running(job), now=at(11))
    assert first.status.retries.used == 1
    pods = pods_of(job, killed("ps-0", 10), killed("worker-0", 12))
    second = plan_for(job, *pods, status=first.status, now=at(13))
    assert "Failed" not in states(second.status)
    assert second.status.retries.used == 1


@pytest.mark.fault("H7")
def test_two_that_fall_one_long_after_the_other_count_twice():
    job = a_job_with_ps(3)
    first = plan_for(job, *pods_of(job, killed("ps-0", 10)), status=running(job), now=at(11))
    second = plan_for(job, *pods_of(job, killed("worker-0", 90)), status=first.status, now=at(91))
    assert second.status.retries.used == 2

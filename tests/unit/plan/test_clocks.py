"""The deadline counts from the start of a job, its TTL from its completion."""

from __future__ import annotations

from support.builders import a_job, a_pod, at, plan_for, run_policy, running, states
from trainshed.api.actions import DeleteJob


def test_the_time_to_live_counts_from_the_end_of_the_job():
    job = a_job(chief=1, policy=run_policy(ttl=30))
    over = plan_for(job, a_pod("chief-0", "Succeeded", code=0, ended=100), status=running(job), now=at(100)).status
    assert (over.start, over.completion) == (at(0), at(100))
    early = plan_for(job, status=over, now=at(129))
    assert (early.actions, early.requeue_at) == ((), at(130))
    assert plan_for(job, status=over, now=at(130)).actions == (DeleteJob("job-uid", job.version),)


def test_a_deadline_counts_from_the_start_of_the_job_however_long_its_pods_took_to_run():
    job = a_job(worker=1, policy=run_policy(deadline=60))
    waiting = plan_for(job, a_pod("worker-0", "Pending")).status
    late = plan_for(job, a_pod("worker-0"), status=waiting, now=at(50))
    assert late.requeue_at == at(60)
    assert states(plan_for(job, a_pod("worker-0"), status=late.status, now=at(60)).status)[-1] == "Failed"


def test_a_deadline_of_no_seconds_is_checked_a_second_later_until_the_start_is_stored():
    job = a_job(worker=1, policy=run_policy(deadline=0))
    for seconds in (0, 5):
        first = plan_for(job, a_pod("worker-0"), now=at(seconds))
        assert (first.requeue_at, states(first.status)[-1]) == (at(seconds + 1), "Running")
    assert states(plan_for(job, a_pod("worker-0"), status=first.status, now=at(5)).status)[-1] == "Failed"

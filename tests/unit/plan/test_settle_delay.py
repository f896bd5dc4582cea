"""The delay before a failure ends the job."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, replace, run_policy, running, states
from trainshed.api.objects import Phase

DDP = a_job("PyTorchJob", master=1, worker=2, restart="ExitCode")


def failed(replica, code, ended=10.0, **fields):
    return a_pod(replica, "Failed", code=code, ended=ended, container="pytorch", **fields)


def decided(*pods, job=DDP, now=10.4):
    return plan_for(job, *pods_of(job, *pods), status=running(job), now=at(now))


def state(decision):
    return states(decision.status)[-1]


def test_a_permanent_exit_code_is_no_verdict_before_its_cause_can_have_been_heard_of():
    early = decided(failed("worker-1", 1))
    assert (state(early), early.actions, early.requeue_at) == ("Running", (), at(13))
    assert state(decided(failed("worker-1", 1), now=13)) == "Failed"


def test_the_first_failure_decides_though_it_is_heard_of_last():
    restarted = decided(failed("worker-1", 1, 10), failed("master-0", 137, 9), now=11)
    assert (state(restarted), restarted.status.retries.used) == ("Restarting", 1)
    assert restarted.status.failure.pod == "mnist-master-0"
    late = decided(failed("worker-1", 1, 10), failed("master-0", 137, 11), now=13.5)
    assert state(late) == "Failed"


def test_within_one_second_the_failure_that_may_be_tried_again_is_taken_for_the_first():
    assert state(decided(failed("master-0", 1, 10), failed("worker-1", 137, 10), now=13)) == "Restarting"


@pytest.mark.parametrize("restart", ["Never", "ExitCode"])
def test_a_disruption_that_comes_to_light_in_time_saves_the_job(restart):
    job = replace(DDP, groups=a_job("PyTorchJob", master=1, worker=2, restart=restart).groups)
    evicted = a_pod("worker-0", "Failed", reason="Evicted", disruption="TerminationByKubelet", container="pytorch")
    assert state(decided(failed("worker-1", 1), job=job)) == "Running"
    assert state(decided(failed("worker-1", 1), evicted, job=job, now=11)) == "Restarting"


def test_what_may_be_tried_again_does_not_wait():
    assert state(decided(failed("worker-1", 137))) == "Restarting"


def test_a_used_up_back_off_limit_waits_as_well():
    job = replace(DDP, policy=run_policy(backoff_limit=0))
    assert state(decided(failed("worker-1", 137), job=job)) == "Running"
    assert state(decided(failed("worker-1", 137), job=job, now=13)) == "Failed"


def test_nobody_waits_where_nobody_else_can_have_failed_before():
    alone = a_job("PyTorchJob", master=1, restart="ExitCode")
    assert state(decided(failed("master-0", 1), job=alone)) == "Failed"
    others = failed("master-0", 1, 9), failed("worker-0", 1, 10)
    assert state(decided(failed("worker-1", 1), *others)) == "Failed"
    waiting = [replace(pod, phase=Phase.PENDING) for pod in pods_of(DDP) if pod.name != "mnist-worker-1"]
    assert state(decided(failed("worker-1", 1), *waiting)) == "Failed"


def test_nobody_waits_for_a_clock_that_is_ahead_or_an_end_that_nobody_dated():
    assert state(decided(failed("worker-1", 1, 3600))) == "Failed"
    undated = replace(failed("worker-1", 1), containers=(replace(failed("worker-1", 1).containers[0], finished=None),))
    assert state(decided(undated)) == "Failed"
    late = a_pod("worker-1", "Failed", reason="DeadlineExceeded", containers=())
    assert state(decided(late)) == "Failed"


def test_whoever_wants_disruptions_to_fail_the_job_need_not_wait():
    job = replace(DDP, fail_on_disruption=True)
    assert state(decided(a_pod("worker-1", deleting=True, container="pytorch"), job=job)) == "Failed"


def test_a_jax_process_follows_another_for_as_long_as_it_waits_for_a_heartbeat():
    job = a_job("JAXJob", restart="ExitCode", worker=3, scope="Replica")
    killed, follower, late = (
        a_pod(replica, "Failed", code=code, ended=ended, container="jax")
        for replica, code, ended in (("worker-1", 137, 10), ("worker-0", 1, 107), ("worker-0", 1, 117))
    )
    first = decided(killed, job=job)
    second = plan_for(job, *pods_of(job, follower), status=first.status, now=at(110))
    assert (state(second), second.status.retries.used) == ("Running", 1)
    assert state(plan_for(job, *pods_of(job, late), status=first.status, now=at(120))) == "Failed"

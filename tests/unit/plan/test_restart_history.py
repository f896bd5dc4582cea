"""The restart history in the status, with recovery times."""

from __future__ import annotations

from support.builders import a_job, a_pod, at, plan_for, pods_of, replace, run_policy, running
from trainshed.api.coerce import EARLIEST
from trainshed.api.job import Job
from trainshed.api.status import Restart, Status

DDP = a_job("PyTorchJob", master=1, worker=2, restart="ExitCode")
PS = a_job(chief=1, ps=1, worker=3, restart="ExitCode")
TORCH = {"container": "pytorch"}


def killed(replica="worker-1", ended=10.0, **fields):
    return a_pod(replica, "Failed", code=137, ended=ended, node="node-a", **fields)


def after(job: Job, *pods, now=10.0, status=None) -> Status:
    """Return the status when these pods are among the others."""
    return plan_for(job, *pods_of(job, *pods), status=status or running(job), now=at(now)).status


def recreated(job: Job, started: float, *others, attempt=1):
    """Return all pods of the next attempt, running."""
    return [replace(pod, attempt=attempt, containers=begun(pod, started)) for pod in pods_of(job, *others)]


def begun(pod, started: float):
    return tuple(replace(container, started=at(started)) for container in pod.containers)


def _in_1970(pod):
    """Return the containers as runtimes report them that have no start time."""
    return tuple(replace(container, started=EARLIEST) for container in pod.containers)


def test_a_restart_is_remembered_with_its_cause():
    assert after(DDP, killed(**TORCH)).recent_restarts == (
        Restart(at(10), 2, "worker-1", "node-a", "Application", "Error", 137, 3, total_running_seconds=10),
    )


def test_the_scope_decides_how_many_replicas_a_restart_counts():
    assert after(PS, killed("ps-0")).recent_restarts[0].replicas_restarted == 1
    assert after(replace(PS, scope="Role"), killed("worker-1")).recent_restarts[0].replicas_restarted == 3


def test_only_the_last_restarts_are_remembered():
    status = running(DDP)
    for attempt in range(12):
        pods = [replace(pod, attempt=attempt) for pod in pods_of(DDP, killed(ended=100.0 * attempt, **TORCH))]
        status = plan_for(DDP, *pods, status=status, now=at(100.0 * attempt)).status
    assert [restart.attempt for restart in status.recent_restarts] == list(range(4, 14))


def test_what_follows_belongs_to_the_restart_before():
    first = after(PS, killed("ps-0"))
    second = after(PS, killed("ps-0"), killed("worker-1", 12.0), killed("chief-0", 13.0), status=first, now=13)
    assert [(restart.replica, restart.replicas_restarted) for restart in second.recent_restarts] == [("ps-0", 3)]
    assert second.failure == first.failure


def test_a_follower_whose_cause_is_not_remembered_is_a_restart_of_its_own():
    first = replace(after(PS, killed("ps-0")), recent_restarts=())
    second = after(PS, killed("ps-0"), killed("worker-1", 12.0), status=first, now=13)
    assert [(restart.replica, restart.kind) for restart in second.recent_restarts] == [("worker-1", "Cascading")]
    assert second.failure == first.failure


def test_the_time_lost_is_that_from_the_failure_until_all_who_decide_run_again():
    status = after(DDP, killed(**TORCH))
    pending = [replace(pod, phase="Pending") for pod in recreated(DDP, 0)]
    assert plan_for(DDP, *pending, status=status, now=at(20)).status.recent_restarts[0].recovery_seconds is None
    pods = recreated(DDP, 24)
    ran = plan_for(DDP, *pods, status=status, now=at(30)).status
    assert ran.recent_restarts[0].recovery_seconds == 14
    assert not ran.must_precede(replace(ran, recent_restarts=status.recent_restarts)), "it waits for the next write"
    late = plan_for(DDP, *[replace(pod, containers=begun(pod, 99)) for pod in pods], status=ran, now=at(100)).status
    assert late.recent_restarts[0].recovery_seconds == 14


def test_where_one_is_replaced_alone_the_time_is_its_own():
    status = after(PS, killed("worker-1"))
    others = [pod for pod in pods_of(PS) if pod.name != "mnist-worker-1"]
    assert plan_for(PS, *others, status=status, now=at(20)).status.recent_restarts[0].recovery_seconds is None
    fresh = a_pod("worker-1", uid="fresh", started=26.0)
    assert plan_for(PS, *others, fresh, status=status, now=at(60)).status.recent_restarts[0].recovery_seconds == 16


def test_the_restart_of_a_job_that_succeeds_at_once_has_its_time_too():
    status = after(DDP, killed(**TORCH))
    master = a_pod("master-0", "Succeeded", code=0, started=21.0, ended=30.0, attempt=1, **TORCH)
    workers = [pod for pod in recreated(DDP, 20) if "worker" in pod.name]
    done = plan_for(DDP, master, *workers, status=status, now=at(30)).status
    assert done.over
    assert done.recent_restarts[0].recovery_seconds == 11


def test_the_time_is_left_open_if_nobody_can_tell_it():
    status = after(DDP, killed(**TORCH))
    unknown = [replace(pod, attempt=1, containers=()) for pod in pods_of(DDP)]
    assert plan_for(DDP, *unknown, status=status, now=at(30)).status.recent_restarts[0].recovery_seconds is None
    in_1970 = [replace(pod, attempt=1, containers=_in_1970(pod)) for pod in pods_of(DDP)]
    assert plan_for(DDP, *in_1970, status=status, now=at(30)).status.recent_restarts[0].recovery_seconds is None
    smaller = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode")
    assert (
        plan_for(smaller, *recreated(smaller, 24), status=status, now=at(30)).status.recent_restarts[0].recovery_seconds
        is None
    )
    leaderless = [pod if "worker" in pod.name else replace(pod, containers=()) for pod in recreated(DDP, 24)]
    assert plan_for(DDP, *leaderless, status=status, now=at(30)).status.recent_restarts[0].recovery_seconds == 14


def test_what_came_before_a_job_was_suspended_costs_no_more():
    status = after(DDP, killed(**TORCH))
    idle = plan_for(replace(DDP, policy=run_policy(suspend=True)), status=status, now=at(20)).status
    resumed = plan_for(DDP, status=idle, now=at(900)).status
    attempt = resumed.attempts["Worker"]
    ran = plan_for(DDP, *recreated(DDP, 910, attempt=attempt), status=resumed, now=at(920)).status
    assert ran.recent_restarts[0].recovery_seconds is None

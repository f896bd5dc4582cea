"""The details after v1's sentence: the first failure, the other replicas, and the next step."""

from __future__ import annotations

import re

import pytest

from support.builders import a_job, a_pod, at, message, plan_for, pods_of, replace, run_policy, running
from trainshed.api.job import Job, RestartScope
from trainshed.api.objects import Container, TerminatedState

DDP = a_job("PyTorchJob", master=1, worker=3, restart="ExitCode", policy=run_policy(backoff_limit=2))
PS = a_job(chief=1, ps=1, worker=3, restart="ExitCode")
LIMITED = {"spec": {"containers": [{"name": "pytorch", "resources": {"limits": {"memory": "2Gi"}}}]}}


def ended(replica="worker-1", code=137, at_=14.0, **fields):
    container = fields.pop("container", "pytorch")
    return a_pod(replica, "Failed", code=code, ended=at_, node="node-a", container=container, **fields)


def details(job: Job, *pods, kind="Restarting", now=14.0, status=None) -> str:
    """Return the details after v1's sentence when these pods are among the others."""
    decision = plan_for(job, *pods_of(job, *pods), status=status or running(job), now=at(now))
    words = message(decision.status, kind)
    assert (str(decision.events[-1].type), decision.events[-1].message) == ("Warning", words)
    return words.partition(". " if ". " in words else ": ")[2]


def test_the_whole_story_of_a_restart_is_one_sentence():
    job = replace(DDP, groups=tuple(replace(group, template=LIMITED) for group in DDP.groups))
    followers = (ended("worker-0", 1, 15.0), ended("worker-2", 1, 15.0), ended("master-0", 1, 16.0))
    expected = "worker-1 on node-a was OOMKilled (limit 2Gi) 14s after start; 3 other replicas failed afterwards; "
    assert (
        details(job, ended(why="OOMKilled"), *followers, now=16)
        == f"{expected}restarting all 4 replicas now (restart 1 of 2)"
    )


def test_a_message_has_the_last_line_of_the_replica_that_failed():
    words = details(DDP, ended(code=138, words="Traceback ...\nValueError: no\n"))
    assert words.startswith(
        "worker-1 on node-a was killed by SIGUSR1 (138) 14s after start; its last line: ValueError: no; restarting"
    )


@pytest.mark.parametrize(
    ("end", "joint"),
    [
        ({"code": 134}, ": "),  # SIGABRT, which the program sends to itself
        ({"code": 130}, "; its last line: "),
        ({"code": 137}, "; its last line: "),
        ({"why": "OOMKilled"}, "; its last line: "),
    ],
)
def test_what_a_killed_program_printed_last_is_not_called_the_cause(end: dict, joint: str):
    assert re.search(rf"(after start|after 14s){joint}loading; restarting", details(DDP, ended(words="loading", **end)))


def test_one_follower_is_one():
    assert "; 1 other replica failed afterwards; " in details(DDP, ended(), ended("worker-0", 1, 15.0), now=15)


def test_a_disruption_is_not_counted_and_costs_no_pause():
    pod = a_pod("worker-1", "Failed", reason="Evicted", node="node-a", container="pytorch")
    expected = "worker-1 on node-a was evicted by the kubelet 14s after start; restarting all 4 "
    assert details(DDP, pod) == f"{expected}replicas now (not counted against backoffLimit)"


def alone(**fields) -> Job:
    return a_job("PyTorchJob", master=1, restart="ExitCode", **fields)


def test_a_message_says_which_replicas_the_scope_restarts():
    assert "restarting it now (restart 1)" in details(alone(), ended("master-0"))
    assert "restarting it now (restart 1)" in details(replace(alone(), scope=RestartScope.ROLE), ended("master-0"))
    role = replace(DDP, scope=RestartScope.ROLE)
    assert "restarting all 3 Worker replicas now (restart 1 of 2)" in details(
        role, ended(), a_pod("master-0", "Pending")
    )
    tensorflow = {"container": "tensorflow"}
    chief = a_pod("chief-0", "Pending", **tensorflow)
    assert "restarting it now (restart 1)" in details(PS, ended(**tensorflow), chief)
    both = (ended(**tensorflow), ended("worker-2", **tensorflow), chief)
    assert "; 1 other replica failed afterwards; restarting these 2 replicas now (restart 1)" in details(PS, *both)


def test_a_member_that_follows_another_says_whom():
    fields = {"container": "tensorflow"}
    first = plan_for(PS, *pods_of(PS, ended("ps-0", **fields)), status=running(PS), now=at(14)).status
    pods = (ended("ps-0", **fields), ended("chief-0", 1, 16.0, **fields))
    words = details(PS, *pods, now=16, status=first)
    assert words.startswith("chief-0 on node-a exited with code 1 after 16s, caused by the failure of ps-0; ")
    assert words.endswith("; restarting it now (not counted against backoffLimit)")


def test_a_message_names_the_failure_of_the_last_try():
    status = running(DDP)
    for attempt in range(2):
        pods = [replace(pod, attempt=attempt) for pod in pods_of(DDP, ended(at_=700.0 * attempt))]
        status = plan_for(DDP, *pods, status=status, now=at(700.0 * attempt)).status
    pods = [replace(pod, attempt=2) for pod in pods_of(DDP, ended(at_=1400.0, words="ValueError: no"))]
    words = message(plan_for(DDP, *pods, status=status, now=at(1410)).status, "Failed")
    expected = "2 of 2 restarts used; last failure: worker-1 on node-a was killed by SIGKILL (137) 23m20s after start; "
    assert words.endswith(f" backoff limit: {expected}its last line: ValueError: no")


def test_containers_that_the_kubelet_restarted_too_often_are_counted():
    job = a_job(worker=1, restart="OnFailure", policy=run_policy(backoff_limit=1))
    decision = plan_for(job, a_pod("worker-0", restarted=1), status=running(job), now=at(9))
    assert "limit: containers were restarted 1 time in place (backoffLimit 1)" in message(decision.status, "Failed")
    decision = plan_for(job, a_pod("worker-0", restarted=2), status=running(job), now=at(9))
    assert "restarted 2 times in place" in message(decision.status, "Failed")
    assert decision.status.failure is None, "no pod tells how its container ended"
    before = TerminatedState(1, at(2), at(8), "Error", "ValueError: no")
    containers = (Container("tensorflow", restarts=1, started=at(9), before=before),)
    status = plan_for(job, a_pod("worker-0", containers=containers, node="n"), status=running(job), now=at(9)).status
    expected = "; last failure: worker-0 on n exited with code 1 after 6s: ValueError: no"
    assert message(status, "Failed").endswith(f"in place (backoffLimit 1){expected}")
    assert status.failure.message in expected
    assert (status.failure.pod, status.failure.time, status.failure.ran) == ("mnist-worker-0", at(8), 6)


def test_a_failure_that_may_not_be_tried_again_says_why():
    words = details(DDP, ended(code=1), kind="Failed", now=30)
    expected = "worker-1 on node-a exited with code 1 after 14s; restartPolicy ExitCode retries only exit codes 128"
    assert words == f"{expected} and above"
    never = a_job("PyTorchJob", master=1, worker=1)
    assert details(never, ended("worker-0"), kind="Failed", now=30).endswith(" after start; restartPolicy is Never")
    gone = a_pod("worker-0", deleting=True, container="pytorch")
    words = details(replace(never, fail_on_disruption=True), gone, kind="Failed", now=30)
    assert words == "worker-0 was deleted 30s after start; trainshed.dev/on-disruption is Fail"


def test_a_deadline_says_what_the_members_were_doing():
    job = a_job(worker=4, policy=run_policy(deadline=3600))
    pods = [a_pod("worker-1"), a_pod("worker-2", "Pending"), a_pod("worker-3", "Succeeded", code=0)]
    words = message(plan_for(job, *pods, status=running(job), now=at(3600)).status, "Failed")
    assert words.endswith("deadline: limit 60m; 1 of 4 replicas running, 1 succeeded, 1 pending, 1 without a pod")

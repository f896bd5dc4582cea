"""Replicas whose pods disappeared without a watch event."""

from __future__ import annotations

import pytest

from support.builders import (
    a_job,
    a_pod,
    at,
    made,
    message,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    seen,
    states,
)
from trainshed.plan import plan

DDP = a_job("PyTorchJob", master=1, worker=2, restart="OnFailure")
HIDDEN = ("LabelRemoved", "pod mnist-worker-0 has lost its label", (a_pod("worker-0"),))


def pods_to_verify(snapshot):
    return plan(snapshot).pods_to_verify


def without(name, job=DDP):
    return [pod for pod in pods_of(job) if pod.name != name]


@pytest.mark.fault("H5")
def test_those_who_ran_and_are_not_there_have_vanished():
    some = without("mnist-worker-0")
    assert pods_to_verify(seen(DDP, *some, status=running(DDP))) == ("mnist-worker-0",)
    assert pods_to_verify(seen(DDP, *pods_of(DDP), status=running(DDP))) == ()
    never_made = plan_for(DDP, *some).status
    assert pods_to_verify(seen(DDP, *some, status=never_made)) == ()


def test_before_all_restart_missing_pods_are_verified_though_the_status_has_not_counted_them():
    job = a_job("JAXJob", worker=3, restart="Always")
    early = plan_for(job, a_pod("worker-1", container="jax")).status
    failed = a_pod("worker-1", "Failed", code=1, container="jax")
    assert pods_to_verify(seen(job, a_pod("worker-1", container="jax"), status=early)) == ()
    assert pods_to_verify(seen(job, failed, status=early)) == ("mnist-worker-0", "mnist-worker-2")
    for other in (a_job("JAXJob", worker=3), replace(job, deleting=True)):
        assert pods_to_verify(seen(other, failed, status=early, now=at(60))) == (), "no replica restarts"
        over = plan_for(other, failed, status=early, now=at(60)).status
        assert pods_to_verify(seen(other, failed, status=over, now=at(90))) == ()
    alone = a_job("JAXJob", worker=3, restart="Always", scope="Replica")
    assert pods_to_verify(seen(alone, failed, status=early)) == ()


def test_whoever_is_missing_is_asked_for_together_with_one_who_is_hidden():
    failed = a_pod("worker-1", "Failed", code=1)
    assert states(plan_for(DDP, failed, refusal=HIDDEN).status)[-1] != "Restarting", "not before that one has gone"
    assert pods_to_verify(seen(DDP, failed, refusal=HIDDEN)) == ("mnist-worker-0", "mnist-master-0")


def test_who_loses_a_seat_does_not_make_another_missed_who_never_was_there():
    replica_statuses = plan_for(DDP, a_pod("master-0"), a_pod("worker-1")).status.replica_statuses
    one_worker = a_job("PyTorchJob", master=1, worker=1, restart="OnFailure")
    early = replace(running(DDP), replica_statuses=replica_statuses)
    assert early.replica_statuses["Worker"].active == 1
    assert pods_to_verify(seen(one_worker, a_pod("master-0"), a_pod("worker-1"), status=early)) == ()
    assert pods_to_verify(seen(one_worker, a_pod("master-0"), status=running(DDP))) == ("mnist-worker-0",)


def test_those_who_are_replaced_one_by_one_are_simply_made_again():
    job = a_job("TFJob", ps=1, worker=2, restart="OnFailure")
    some = without("mnist-worker-0", job)
    assert pods_to_verify(seen(job, *some, status=running(job))) == ()
    assert made(plan_for(job, *some, status=running(job))) == ["mnist-worker-0"]


def test_while_one_is_only_hidden_nobody_is_restarted_and_nobody_made():
    decision = plan_for(DDP, *without("mnist-worker-0"), status=running(DDP), refusal=HIDDEN, now=at(10))
    assert decision.actions == ()
    assert decision.status.attempts == {}
    assert states(decision.status) == ["Created", "Running", "Blocked"]
    assert message(decision.status, "Blocked").startswith(HIDDEN[1])


def test_one_that_goes_while_it_is_hidden_is_lost():
    some = without("mnist-worker-0")
    hidden = plan_for(DDP, *some, status=running(DDP), refusal=HIDDEN, now=at(10)).status
    assert hidden.replica_statuses["Worker"].active == 2, "it is there, and is missed once it is not"
    gone = plan_for(DDP, *some, status=hidden, now=at(20))
    assert gone.status.attempts == {"Master": 1, "Worker": 1}
    assert gone.status.failure.reason == "PodDisappeared"


def test_one_of_an_earlier_attempt_is_waited_for_and_not_missed():
    status = replace(running(DDP), attempts={"Master": 1, "Worker": 1})
    old = ("LabelRemoved", "pod mnist-worker-0 has lost its label", (a_pod("worker-0", attempt=0),))
    pods = [replace(pod, attempt=1) for pod in without("mnist-worker-0")]
    waiting = plan_for(DDP, *pods, status=replace(status, replica_statuses={}), refusal=old, now=at(10))
    assert waiting.actions == ()
    assert waiting.status.attempts == status.attempts
    assert made(plan_for(DDP, *pods, status=waiting.status, now=at(20))) == ["mnist-worker-0"]


@pytest.mark.parametrize("deleting", [False, True])
def test_pods_are_not_looked_for_when_none_will_be_created(deleting):
    job = replace(DDP, deleting=True) if deleting else replace(DDP, policy=run_policy(suspend=True))
    assert pods_to_verify(seen(job, *without("mnist-worker-0"), status=running(DDP))) == ()


def test_one_whose_name_another_has_by_now_is_not_waited_for():
    hidden = plan_for(DDP, *without("mnist-worker-0"), status=running(DDP), refusal=HIDDEN, now=at(10)).status
    pods = [*without("mnist-worker-0"), a_pod("worker-0", uid="another")]
    assert pods_to_verify(seen(DDP, *pods, status=hidden, refusal=HIDDEN)) == ()


def test_one_that_gets_its_label_back_has_never_been_away():
    hidden = plan_for(DDP, *without("mnist-worker-0"), status=running(DDP), refusal=HIDDEN, now=at(10)).status
    assert pods_to_verify(seen(DDP, *pods_of(DDP), status=hidden, refusal=HIDDEN)) == ()
    back = plan_for(DDP, *pods_of(DDP), status=hidden, now=at(20))
    assert back.actions == ()
    assert replace(back.status, conditions=()) == replace(running(DDP), conditions=())
    assert states(back.status) == ["Created", "Running"]

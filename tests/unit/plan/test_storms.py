"""Replicas that never joined the others are replaced alone; disruptions soon after a start have a back-off."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, deleted, made, plan_for, pods_of, replace, running, seen
from trainshed.api.actions import LostPod
from trainshed.api.objects import Container
from trainshed.api.status import ConditionType
from trainshed.plan import plan
from trainshed.plan.facts import Facts
from trainshed.plan.false_starts import postponed

DDP = a_job("PyTorchJob", master=1, worker=2)
NEW = plan_for(DDP, *pods_of(DDP, a_pod("worker-1", "Pending", containers=()))).status


def rejected(reason="NodeShutdown", **fields):
    return a_pod("worker-1", "Failed", reason=reason, node="node-a", containers=fields.pop("containers", ()), **fields)


def after(pod, *, status=NEW, now=5):
    return plan_for(DDP, *pods_of(DDP, pod), status=status, now=at(now))


@pytest.mark.parametrize(
    ("pod", "alone"),
    [
        (rejected(), True),
        (rejected("OutOfcpu"), True),
        (rejected("NodeAffinity", containers=(Container("pytorch", waiting=True),)), True),
        (rejected("Evicted", message="Pod was rejected: The node had condition: [DiskPressure]."), True),
        (rejected("Evicted", message="The node was low on resource: memory."), False),
        (rejected("Evicted", disruption="TerminationByKubelet"), False),
        (rejected("OutOfcpu", containers=(Container("init", init=True, started=at(1)),)), False),
        (rejected("Terminated"), False),
        (a_pod("worker-1", "Running", deleting=True, container="pytorch"), False),
    ],
)
def test_only_a_pod_that_no_kubelet_admitted_is_replaced_alone(pod, alone):
    decision = after(pod)
    assert (decision.status.pending_replacement == ("worker-1-uid",)) is alone
    assert (decision.status.attempts == NEW.attempts) is alone
    assert ("mnist-worker-0" in deleted(decision)) is not alone


def test_a_rejected_pod_that_was_counted_as_running_restarts_the_group():
    assert len(deleted(after(rejected("NodeAffinity"), status=running(DDP)))) == 3


def test_a_rejected_pod_does_not_speak_for_others_that_failed_as_well():
    crashed = a_pod("worker-0", "Failed", code=1, ended=4, container="pytorch")
    decision = plan_for(DDP, *pods_of(DDP, crashed, rejected()), status=NEW, now=at(5))
    assert decision.status.attempts == {"Master": 1, "Worker": 1}


def test_the_replacement_waits_from_the_second_rejection_on():
    first = after(rejected(created=at(0)))
    assert "restarting it now (not counted against backoffLimit)" in first.events[-1].message
    others = [pod for pod in pods_of(DDP) if pod.name != "mnist-worker-1"]
    assert made(plan_for(DDP, *others, status=first.status, now=at(5))) == ["mnist-worker-1"]
    second = after(rejected(uid="second", created=at(5)), status=first.status, now=6)
    assert made(plan_for(DDP, *others, status=second.status, now=at(6))) == []
    assert made(plan_for(DDP, *others, status=second.status, now=at(7))) == ["mnist-worker-1"]


@pytest.mark.parametrize(("created", "streak"), [(0, 1), (5, 2), (None, 2)])
def test_pods_of_one_drained_node_make_the_back_off_no_longer(created, streak):
    first = plan_for(DDP, *pods_of(DDP, rejected(created=at(0))), status=NEW, now=at(5)).status
    other = replace(rejected(created=None if created is None else at(created)), name="mnist-worker-0", index=0, uid="o")
    pods = [pod for pod in pods_of(DDP, other) if pod.name != "mnist-worker-1"]
    assert plan_for(DDP, *pods, status=first, now=at(6)).status.retries.consecutive_failures == streak


@pytest.mark.parametrize(("later", "wait"), [(20, 1), (700, 0)])
def test_a_disruption_soon_after_another_has_a_back_off_and_is_not_counted(later, wait):
    evicted = a_pod("worker-1", deleting=True, container="pytorch")
    first = after(evicted, status=running(DDP)).status
    again = pods_of(DDP, replace(evicted, attempt=1, created=at(6)), attempt=1)
    second = plan_for(DDP, *again, status=first, now=at(later)).status.retries
    assert (second.used, second.next_retry_time) == (0, at(later + wait))


def test_a_pod_that_others_delete_again_and_again_is_created_later_and_later():
    others = [pod for pod in pods_of(DDP) if pod.name != "mnist-worker-1"]
    for count, wait in ((1, 0), (2, 1), (11, 300)):
        lost = (LostPod("mnist-worker-1", count, at(5)), LostPod("mnist-worker-0", 9, at(5)))
        snapshot = replace(seen(DDP, *others, status=NEW, now=at(5)), lost_pods=lost)
        until = postponed(Facts(snapshot)).values()
        assert all(wait <= (end - at(5)).total_seconds() <= wait * 1.25 for end in until)
        decision = plan(snapshot)
        assert made(decision) == ([] if wait else ["mnist-worker-1"])
        assert decision.requeue_at == min(until, default=None)
        held = [(item.role, str(item.indexes), item.reason, item.message) for item in decision.status.waiting]
        why = f": others have deleted the pod, or its annotations, {count} times"
        words = [f"created again by {end:%Y-%m-%dT%H:%M:%SZ}{why}" for end in until]
        assert held == [("Worker", "1", "NotCreated", one) for one in words]
        assert not decision.status.condition(ConditionType.BLOCKED)

"""Pods that are stuck terminating."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, made, message, plan_for, pods_of, replace, run_policy, running, states
from trainshed.api.actions import DeletePod
from trainshed.api.objects import Phase
from trainshed.api.status import ConditionType

JOB = a_job("PyTorchJob", master=1, worker=2)
PS = a_job(chief=1, ps=1, worker=2)
STUCK = "PodStuckTerminating"


def leaving(replica="worker-1", **fields):
    known = {"deleting": True, "deletion_timestamp": at(30), "grace": 30, "node": "node-a", "container": "pytorch"}
    return a_pod(replica, **known | fields)


def after(seconds, *pods, job=JOB, status=None):
    return plan_for(job, *pods_of(job, *pods), status=status or running(job), now=at(seconds))


def stuck_events(decision):
    return [note for note in decision.events if note.reason == STUCK]


def test_a_pod_that_takes_no_longer_than_its_grace_and_half_a_minute_is_no_news():
    decision = after(59, leaving(), status=after(1, leaving()).status)
    assert "Blocked" not in states(decision.status)
    assert (stuck_events(decision), decision.requeue_at) == ([], at(60))


@pytest.mark.fault("H4")
def test_a_pod_whose_node_does_not_answer_is_reported_and_its_place_not_taken():
    decision = after(60, leaving(), status=after(1, leaving()).status)
    condition = decision.status.condition(ConditionType.BLOCKED)
    assert (condition.true, condition.reason) == (True, STUCK)
    expected = (
        "Pod mnist-worker-1 on node node-a is still terminating; its grace period ended at 2026-01-01T12:00:30Z: "
    )
    assert condition.message.startswith(expected)
    assert "trainshed.dev/force-delete-after" in condition.message
    (note,) = stuck_events(decision)
    assert (note.type, note.message, note.key) == ("Warning", condition.message, f"worker-1-uid/{STUCK}")
    assert made(decision) == []
    again = after(500, leaving(), status=decision.status)
    assert (again.status, stuck_events(again)) == (decision.status, [note]), "it is said once, and stays said"


def test_the_report_is_taken_back_when_the_pod_is_gone_and_others_have_gone_on():
    status = after(60, leaving("worker-0"), job=PS).status
    one_gone = [pod for pod in pods_of(PS) if pod.name != "mnist-worker-0"]
    decision = plan_for(PS, *one_gone, status=status, now=at(70))
    assert "Blocked" not in states(decision.status)
    assert made(decision) == ["mnist-worker-0"]


@pytest.mark.fault("H15")
def test_the_others_are_replaced_while_one_does_not_leave():
    status = after(60, leaving("worker-0", container="tensorflow"), job=PS).status
    pods = [pod for pod in pods_of(PS, leaving("worker-0")) if pod.name != "mnist-worker-1"]
    assert made(plan_for(PS, *pods, status=status, now=at(90))) == ["mnist-worker-1"]


@pytest.mark.fault("H15")
def test_a_finalizer_is_named_and_who_set_it_has_to_act():
    held = leaving(finalizers=("a.io/x", "b.io/y"), phase=Phase.FAILED)
    said = message(after(60, held, status=after(1, held).status).status, "Blocked")
    assert said.endswith("Z: waiting for these finalizers to be removed: a.io/x, b.io/y")
    many = leaving(finalizers=tuple(f"f.io/{number}" for number in range(9)))
    assert message(after(60, many, status=after(1, many).status).status, "Blocked").endswith("f.io/3 ...")


def test_of_several_the_one_that_leaves_for_longest_stands_for_all():
    pods = leaving("worker-1"), leaving("worker-0", deletion_timestamp=at(20))
    said = message(after(60, *pods, status=after(1, *pods).status).status, "Blocked")
    assert said.startswith(
        "Pod mnist-worker-0 on node node-a is still terminating; its grace period ended at 2026-01-01T12:00:20Z (1 "
    )
    assert message(after(60, leaving(node=""), status=after(1, leaving()).status).status, "Blocked").startswith(
        "Pod mnist-worker-1 is still terminating; "
    )


@pytest.mark.fault("H4")
def test_whoever_says_after_how_long_has_the_pod_deleted_for_good():
    job = replace(JOB, force_delete_after=120)
    status = after(1, leaving(), job=job).status
    waiting = after(60, leaving(), job=job, status=status)
    assert "the operator force-deletes it at 2026-01-01T12:02:30Z" in message(waiting.status, "Blocked")
    assert (forced(waiting), waiting.requeue_at) == ([], at(150))
    assert forced(after(150, leaving(), job=job, status=status)) == [("mnist-worker-1", "worker-1-uid", 0)]
    assert forced(after(150, leaving(finalizers=("a.io/x",)), job=job, status=status)) == []
    assert forced(after(9999, leaving(), status=status)) == [], "it was not requested"


def forced(decision):
    actions = [action for action in decision.actions if isinstance(action, DeletePod) and action.grace == 0]
    return [(action.name, action.uid, action.grace) for action in actions]


def test_the_pods_of_jobs_that_are_suspended_or_over_are_seen_off_as_well():
    suspended = replace(JOB, policy=run_policy(suspend=True), force_delete_after=120)
    status = plan_for(suspended, leaving(), status=running(JOB), now=at(1)).status
    for status_then in (status, running(JOB)):
        late = plan_for(suspended, leaving(), status=status_then, now=at(160))
        assert (len(stuck_events(late)), len(forced(late))) == (1, 1)
    assert plan_for(suspended, leaving(), status=status, now=at(40)).requeue_at == at(60)
    over = plan_for(JOB, a_pod("master-0", "Succeeded", code=0, container="pytorch"), status=running(JOB)).status
    for ttl in (None, 9999):
        job = replace(JOB, policy=run_policy(ttl=ttl), force_delete_after=120)
        late = plan_for(job, leaving(), status=over, now=at(160))
        assert (len(stuck_events(late)), len(forced(late))) == (1, 1)
        assert late.status == over

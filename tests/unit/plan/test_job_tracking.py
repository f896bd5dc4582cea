"""The finalizer that keeps pods until their result is stored."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, event_reasons, plan_for, pods_of, replace, run_policy, running
from trainshed.api.actions import CreatePod, ReleasePod
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import JOB_TRACKING_FINALIZER
from trainshed.frameworks.tensorflow import TFJobOptions

JOB = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode", track_results=True)


def a_held_pod(replica="master-0", phase="Running", **fields):
    return a_pod(replica, phase, **{"has_finalizer": True, "container": "pytorch"} | fields)


def released(decision):
    return [action.name for action in decision.actions if isinstance(action, ReleasePod)]


def after(*pods, job=JOB, status=None, now=30):
    return plan_for(job, *pods_of(job, *pods), status=status or running(job), now=at(now))


@pytest.mark.parametrize(("keep", "finalizers"), [(True, [JOB_TRACKING_FINALIZER]), (False, None)])
def test_the_pods_of_those_who_decide_are_held_if_that_is_asked_for(keep, finalizers):
    actions = plan_for(replace(JOB, track_results=keep)).actions
    pods = {action.name: action.body["metadata"] for action in actions if isinstance(action, CreatePod)}
    assert pods["mnist-master-0"].get("finalizers") == finalizers
    assert "finalizers" not in pods["mnist-worker-0"]


def test_a_job_in_which_nobody_decides_holds_nobody():
    made = [action for action in plan_for(a_job(ps=1, track_results=True)).actions if isinstance(action, CreatePod)]
    assert "finalizers" not in made[0].body["metadata"]


def test_who_has_succeeded_is_let_go_once_that_is_stored():
    job = a_job("JAXJob", worker=2, track_results=True)
    done = a_held_pod("worker-0", "Succeeded", code=0, container="jax", finalizers=("a.io/x",))
    first = after(done, job=job)
    assert released(first) == [], "a crash now would lose it"
    assert released(after(replace(done, deleting=True, deletion_timestamp=at(30)), job=job)) == [], "a deletion as well"
    second = after(done, job=job, status=first.status)
    (action,) = (action for action in second.actions if isinstance(action, ReleasePod))
    assert action == ReleasePod("mnist-worker-0", "worker-0-uid", "1", ("a.io/x",))


@pytest.mark.fault("C10")
def test_a_result_outlives_the_deletion_of_its_pod():
    deleted = a_held_pod(phase="Succeeded", code=0, deleting=True, deletion_timestamp=at(20))
    verdict = after(deleted)
    assert (verdict.status.over, released(verdict)) == (True, [])
    assert released(after(deleted, status=verdict.status)) == ["mnist-master-0"]
    failed = a_held_pod(phase="Failed", code=1, ended=10, deleting=True, deletion_timestamp=at(20))
    assert after(failed).status.failure.exit_code == 1


def test_a_pod_that_is_given_up_on_is_deleted_and_then_let_go():
    killed = a_held_pod(phase="Failed", code=137, ended=10)
    restart = after(killed)
    assert released(restart) == []
    leaving = replace(killed, deleting=True, deletion_timestamp=at(30))
    assert released(after(leaving, status=restart.status)) == ["mnist-master-0"]


def test_a_pod_that_is_leaving_is_held_until_its_failure_is_answered():
    leaving = a_held_pod(deleting=True, deletion_timestamp=at(60), grace=30)
    restart = after(leaving)
    assert restart.status.attempts == {"Master": 1, "Worker": 1}
    assert released(restart) == ["mnist-master-0"], "this plan is stored before anything is done"
    fresh = a_held_pod(phase="Failed", code=1, ended=29, deleting=True, deletion_timestamp=at(30))
    assert released(after(fresh)) == [], "its failure settles first"


def test_a_failure_that_nobody_answers_for_lets_its_pod_go_if_somebody_deletes_it():
    job = a_job(ps=1, worker=2, options=TFJobOptions(dynamic_workers=True), track_results=True)
    failed = a_held_pod("worker-1", "Failed", code=1, container="tensorflow")
    assert released(after(failed, job=job)) == []
    assert released(after(replace(failed, deleting=True, deletion_timestamp=at(20)), job=job)) == ["mnist-worker-1"]


def test_nobody_is_held_once_the_job_is_over_suspended_or_going_away():
    verdict = after(a_held_pod(phase="Succeeded", code=0))
    assert released(after(a_held_pod(phase="Succeeded", code=0), status=verdict.status)) == ["mnist-master-0"]
    going = replace(JOB, policy=run_policy(clean="All"))
    assert released(after(a_held_pod(), job=going, status=verdict.status)) == [], "it is deleted first"
    suspended = replace(JOB, policy=run_policy(suspend=True))
    assert released(after(a_held_pod(), job=suspended)) == []
    assert released(after(a_held_pod(deleting=True, deletion_timestamp=at(60)), job=suspended)) == ["mnist-master-0"]
    assert released(after(a_held_pod(), job=replace(JOB, deleting=True))) == ["mnist-master-0"]
    elsewhere = replace(JOB, policy=run_policy(managed_elsewhere=True))
    assert released(after(a_held_pod(), job=elsewhere)) == []


def test_a_pod_that_loses_its_seat_is_let_go():
    job = a_job("JAXJob", worker=1, track_results=True)
    surplus = a_held_pod("worker-1", container="jax", deleting=True, deletion_timestamp=at(60))
    assert released(after(a_pod("worker-0", container="jax"), surplus, job=job)) == ["mnist-worker-1"]


def test_a_job_that_asks_for_tracked_results_in_vain_has_an_event():
    asked = replace(JOB, track_results=False, annotations={"trainshed.dev/track-results": "true"})
    assert "ResultTrackingDisabled" in event_reasons(after(job=asked))
    enabled = plan_for(asked, *pods_of(asked), status=running(asked), job_defaults=JobDefaults(track_results=True))
    assert "ResultTrackingDisabled" not in event_reasons(enabled)
    assert "ResultTrackingDisabled" not in event_reasons(after())

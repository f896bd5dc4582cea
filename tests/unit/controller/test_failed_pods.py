"""Each failed pod is counted once, whichever replica leads."""

from __future__ import annotations

from support.builders import a_job, a_pod, plan_for, pods_of, running, seen
from support.replace import replace
from trainshed.api.job import JobKey
from trainshed.api.status import Status
from trainshed.controller.observed_pods import FailedPods

KEY = JobKey("ml", "TFJob", "mnist")
JOB = a_job(chief=1, ps=1, worker=3, restart="ExitCode")


def failed(index: int, **fields):
    return a_pod(f"worker-{index}", "Failed", code=137, **fields)


def snapshot(*pods, status: Status | None = None):
    return seen(JOB, *pods_of(JOB, *pods), status=status or running(JOB))


def test_each_failed_pod_is_counted_once():
    losses = FailedPods()
    assert losses.count_new(snapshot()) == 0
    assert losses.count_new(snapshot(failed(0))) == 1
    assert losses.count_new(snapshot(failed(0))) == 0
    assert losses.count_new(snapshot(failed(0), failed(1))) == 1
    assert losses.count_new(snapshot(failed(1), failed(0, uid="its successor"))) == 1


def test_a_pod_that_fails_while_it_is_deleted_does_not_count():
    losses = FailedPods()
    killed = failed(0, deleting=True)
    assert FailedPods().count_new(snapshot(killed)) == 0
    assert losses.count_new(snapshot()) == 0
    assert losses.count_new(snapshot(killed)) == 0
    assert losses.count_new(snapshot(failed(0))) == 1
    assert losses.count_new(snapshot(killed)) == 0, "it failed before it was deleted, and was counted then"


def test_a_new_process_counts_failures_that_are_not_in_the_status():
    assert FailedPods().count_new(snapshot(failed(0), failed(2))) == 2


def test_a_new_process_does_not_count_failures_in_the_status():
    pods = pods_of(JOB, failed(0))
    given_up = plan_for(JOB, *pods, status=running(JOB)).status
    assert given_up.pending_replacement == ("worker-0-uid",)
    assert FailedPods().count_new(snapshot(failed(0), status=given_up)) == 0

    counted = replace(given_up, pending_replacement=())
    assert counted.replica_statuses["Worker"].failed == 1
    assert FailedPods().count_new(snapshot(failed(0), status=counted)) == 0
    assert FailedPods().count_new(snapshot(failed(0), failed(1), status=counted)) == 1

    restarted = replace(running(JOB), attempts={"Worker": 1})
    for role in ("worker", "other"):  # what a pod is its name says, not its labels
        assert FailedPods().count_new(snapshot(replace(failed(0), role=role), status=restarted)) == 0


def test_a_recreated_job_is_a_different_job():
    losses = FailedPods()
    losses.count_new(snapshot())
    again = replace(snapshot(failed(0)), job=replace(JOB, uid="another"), status=Status())
    assert losses.count_new(again) == 1
    losses.forget(KEY)
    assert losses.count_new(again) == 1

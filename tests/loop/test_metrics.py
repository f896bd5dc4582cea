"""Counters move once for each happening, and nothing that has no end becomes a label."""

from __future__ import annotations

from dataclasses import replace

import pytest

from make import T0, a_job, look, pods_of, running, seen
from trainshed.api.status import Condition, Kind, Retries, Status
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.loop.metrics import Metrics

JOB = a_job(worker=2)


def having(kind: Kind, **fields) -> Status:
    return Status(conditions=(Condition(kind, True, "r", "m", T0, T0),), **fields)


def count(metrics: Metrics, what: str) -> float | None:
    labels = {"job_namespace": "ml", "framework": "tensorflow"}
    return metrics.registry.get_sample_value(f"training_operator_jobs_{what}_total", labels)


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("created", Status(), having(Kind.CREATED)),
        ("successful", having(Kind.CREATED), having(Kind.SUCCEEDED)),
        ("failed", having(Kind.CREATED), having(Kind.FAILED)),
        ("restarted", Status(), Status(retries=Retries(used=1))),
    ],
)
def test_a_happening_is_counted_when_it_is_stored_and_not_again(what, before, after):
    metrics = Metrics()
    metrics.stored(seen(JOB, status=before), after)
    metrics.stored(seen(JOB, status=after), after)
    assert count(metrics, what) == 1
    others = {"created", "successful", "failed", "restarted", "deleted"} - {what}
    assert [count(metrics, other) for other in others] == [None] * 4


def test_a_jobs_first_look_counts_as_v1_counts():
    metrics = Metrics()
    snapshot = seen(JOB, *pods_of(JOB))
    metrics.stored(snapshot, look(JOB).status)
    metrics.stored(replace(snapshot, status=look(JOB).status), running(JOB))
    assert count(metrics, "created") == 1


def test_a_deleted_job_is_counted():
    metrics = Metrics()
    metrics.deleted("ml", TENSORFLOW)
    assert count(metrics, "deleted") == 1


def test_how_the_operator_does_is_measured():
    metrics = Metrics()
    metrics.looked(0.5)
    metrics.waited(0.25)
    metrics.lost()
    metrics.requested("POST", "pods", 201)
    metrics.requested("GET", "pods", 0)
    value = metrics.registry.get_sample_value
    assert value("trainshed_reconcile_seconds_sum") == 0.5
    assert value("trainshed_queue_seconds_sum") == 0.25
    assert value("trainshed_events_lost_total") == 1
    assert value("trainshed_api_requests_total", {"verb": "POST", "resource": "pods", "code": "201"}) == 1
    assert value("trainshed_api_requests_total", {"verb": "GET", "resource": "pods", "code": "none"}) == 1


def test_no_meter_is_labelled_with_the_name_of_a_job():
    metrics = Metrics()
    metrics.stored(seen(JOB), having(Kind.CREATED))
    assert b"training_operator_jobs_created_total" in metrics.text()
    assert b"mnist" not in metrics.text()

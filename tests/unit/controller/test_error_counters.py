"""Each kind of error has its own counter."""

from __future__ import annotations

from support.builders import a_job, seen
from trainshed.client import Conflict, Forbidden
from trainshed.controller.metrics import Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_reconcile_errors_are_counted_by_class():
    metrics = Metrics()
    for error in (Conflict("x"), Conflict("y"), Forbidden("z")):
        metrics.count_error(error)
    assert value(metrics, "trainshed_reconcile_errors_total", error="Conflict") == 2
    assert value(metrics, "trainshed_reconcile_errors_total", error="Forbidden") == 1


def test_internal_errors_have_a_counter_that_starts_at_zero():
    metrics = Metrics()
    metrics.count_error(Conflict("x"))
    assert value(metrics, "trainshed_internal_errors_total") == 0
    metrics.count_internal_error()
    assert value(metrics, "trainshed_internal_errors_total") == 1


def test_rejected_statuses_are_counted_from_zero():
    metrics = Metrics()
    metrics.set_jobs({}, {"JAXJob": "jax"})
    assert value(metrics, "trainshed_status_updates_rejected_total", framework="jax") == 0
    metrics.count_rejected_status(seen(a_job("JAXJob", worker=1)))
    assert value(metrics, "trainshed_status_updates_rejected_total", framework="jax") == 1


def test_events_that_were_not_written_are_counted():
    metrics = Metrics()
    metrics.count_dropped_event()
    assert value(metrics, "trainshed_events_dropped_total") == 1

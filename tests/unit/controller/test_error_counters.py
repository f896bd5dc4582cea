"""Each kind of error has its own counter."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from trainshed.client import Conflict, Forbidden
from trainshed.controller.metrics import ErrorCounters


def test_reconcile_errors_are_counted_by_class():
    own = CollectorRegistry()
    counters = ErrorCounters(own)
    for error in (Conflict("x"), Conflict("y"), Forbidden("z")):
        counters.count_error(error)
    assert own.get_sample_value("trainshed_reconcile_errors_total", {"error": "Conflict"}) == 2
    assert own.get_sample_value("trainshed_reconcile_errors_total", {"error": "Forbidden"}) == 1


def test_internal_errors_have_a_counter_that_starts_at_zero():
    own = CollectorRegistry()
    counters = ErrorCounters(own)
    counters.count_error(Conflict("x"))
    assert own.get_sample_value("trainshed_internal_errors_total") == 0
    counters.count_internal_error()
    assert own.get_sample_value("trainshed_internal_errors_total") == 1


def test_rejected_statuses_are_counted_from_zero():
    own = CollectorRegistry()
    counters = ErrorCounters(own)
    counters.count_rejected_status("jax", 0)
    assert own.get_sample_value("trainshed_status_updates_rejected_total", {"framework": "jax"}) == 0
    counters.count_rejected_status("jax")
    assert own.get_sample_value("trainshed_status_updates_rejected_total", {"framework": "jax"}) == 1


def test_events_that_were_not_written_are_counted():
    own = CollectorRegistry()
    ErrorCounters(own).count_dropped_event()
    assert own.get_sample_value("trainshed_events_dropped_total") == 1

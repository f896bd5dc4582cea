"""Gauges have the value that was set last."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client import CollectorRegistry

from trainshed.controller.metrics import Gauges


def test_a_gauge_shows_what_was_set_last():
    registry = CollectorRegistry()
    gauges = Gauges(registry)
    for depth in (3, 2):
        gauges.waiting.set(depth)
    gauges.queued_writes.labels("creates").set(5)
    assert registry.get_sample_value("trainshed_workqueue_depth") == 2
    assert registry.get_sample_value("trainshed_api_requests_queued", {"limiter": "creates"}) == 5


def test_the_version_is_exposed():
    registry = CollectorRegistry()
    Gauges(registry)
    assert registry.get_sample_value("trainshed_build_info", {"version": version("trainshed")}) == 1

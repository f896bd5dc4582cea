"""Gauges about the operator itself, set at each scrape; between scrapes they cost nothing."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge


class Gauges:
    """The gauges; the operator sets them before it serves /metrics."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.waiting = Gauge("trainshed_queue_depth", "Jobs waiting in the work queue.", registry=own)
        self.lag = Gauge(
            "trainshed_loop_lag_seconds", "Maximum lag of the event loop in the last minute, in seconds.", registry=own
        )
        self.skew = Gauge(
            "trainshed_clock_skew_seconds",
            "Step of the wall clock since the process started, in seconds.",
            registry=own,
        )
        self.leading = Gauge("trainshed_leader", "1 if this replica is the leader, else 0.", registry=own)
        self.ages = Gauge(
            "trainshed_watch_age_seconds", "Seconds since the last event of a watch.", ("resource",), registry=own
        )
        self.under_way = Gauge(
            "trainshed_api_requests_in_flight", "Requests to the API server that are in flight.", registry=own
        )
        self.lanes = Gauge(
            "trainshed_api_writes_waiting", "Writes waiting for the client-side rate limiter.", ("lane",), registry=own
        )
        build = Gauge(
            "trainshed_build_info", "Version of the operator as a label; the value is 1.", ("version",), registry=own
        )
        build.labels(version("trainshed")).set(1)

"""How the operator does just now: values that are read when somebody asks for the meters, and cost nothing before."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge


class Gauges:
    """To be set by whoever knows the values."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.waiting = Gauge("trainshed_queue_depth", "Jobs that wait for a look.", registry=own)
        self.lag = Gauge(
            "trainshed_loop_lag_seconds", "How late the event loop was at the most within a minute.", registry=own
        )
        self.skew = Gauge(
            "trainshed_clock_skew_seconds", "How far the wall clock has leapt since the start.", registry=own
        )
        self.leading = Gauge("trainshed_leader", "Whether this process is the one that acts.", registry=own)
        self.ages = Gauge("trainshed_watch_age_seconds", "Since when a watch is silent.", ("resource",), registry=own)
        self.under_way = Gauge(
            "trainshed_api_requests_in_flight", "Requests to the API server without an answer yet.", registry=own
        )
        self.lanes = Gauge(
            "trainshed_api_writes_waiting", "Writes that wait until there is room for them.", ("lane",), registry=own
        )
        build = Gauge("trainshed_build_info", "Which version this is.", ("version",), registry=own)
        build.labels(version("trainshed")).set(1)

"""What is counted of errors: those of the API server, those of the operator itself, and what has been rejected."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from trainshed.cluster import ClusterError


class ErrorCounters:
    """All counters of errors."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._errors = Counter(
            "trainshed_reconcile_errors",
            "Reconciles that failed because of the API server, by error.",
            ("error",),
            registry=own,
        )
        self._internal = Counter(
            "trainshed_internal_errors", "Reconciles that failed because of an internal error.", registry=own
        )
        self._events = Counter("trainshed_events_lost", "Events that were not written.", registry=own)
        self._statuses = Counter(
            "trainshed_status_updates_rejected",
            "Status updates that the API server rejected as invalid.",
            ("framework",),
            registry=own,
        )

    def failed(self, error: ClusterError) -> None:
        """A look has ended in this error, which may be a normal one, as a conflict is."""
        self._errors.labels(type(error).__name__).inc()

    def crashed(self) -> None:
        """A look has ended in an error of the operator itself: nothing else may be counted here."""
        self._internal.inc()

    def lost(self) -> None:
        """An Event was not written."""
        self._events.inc()

    def rejected(self, framework: str, by: int = 1) -> None:
        """The server has rejected so many status updates of jobs of this framework; with 0 the series begins."""
        self._statuses.labels(framework).inc(by)

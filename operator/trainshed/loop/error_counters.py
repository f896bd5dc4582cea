"""What is counted of errors: those that looks end in, those of the operator itself, and what the API server rejects."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class ErrorCounters:
    """All counters of errors."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._errors = Counter("trainshed_reconcile_errors", "Looks that ended in an error.", ("error",), registry=own)
        self._events = Counter("trainshed_events_lost", "Events that could not be written.", registry=own)
        self._statuses = Counter(
            "trainshed_status_updates_rejected",
            "Status updates that the API server rejected as invalid.",
            ("framework",),
            registry=own,
        )

    def failed(self, error: Exception) -> None:
        """A look has ended in this error."""
        self._errors.labels(type(error).__name__).inc()

    def lost(self) -> None:
        """An Event was not written."""
        self._events.inc()

    def rejected(self, framework: str, by: int = 1) -> None:
        """The server has rejected so many status updates of jobs of this framework; with 0 the series begins."""
        self._statuses.labels(framework).inc(by)

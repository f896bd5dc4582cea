"""Error counters: errors of the API server, internal errors, dropped Events and rejected status updates."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from trainshed.client import ApiError


class ErrorCounters:
    """All error counters."""

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

    def failed(self, error: ApiError) -> None:
        """Count a reconcile that failed with this error, which may be a normal one such as a conflict."""
        self._errors.labels(type(error).__name__).inc()

    def crashed(self) -> None:
        """Count a reconcile that failed with an internal error, and nothing else: an alert fires on it."""
        self._internal.inc()

    def lost(self) -> None:
        """Count an Event that was not written."""
        self._events.inc()

    def rejected(self, framework: str, by: int = 1) -> None:
        """Count `by` rejected status updates of jobs of this framework; 0 only creates the series."""
        self._statuses.labels(framework).inc(by)

"""What is counted: v1's counters, from the old and the new status once it is stored, and how the operator does."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from trainshed.api.framework import Framework
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Kind, Status

LABELS = ("job_namespace", "framework")


class Metrics:
    """All meters, in a registry of their own. Labels never hold the name of a job: there is no end of those."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            what: Counter(f"training_operator_jobs_{what}", f"Jobs {what}.", LABELS, registry=self.registry)
            for what in ("created", "deleted", "successful", "failed", "restarted")
        }
        self._looks = Histogram("trainshed_reconcile_seconds", "Seconds that a look took.", registry=self.registry)
        self._waits = Histogram("trainshed_queue_seconds", "Seconds that a job waited.", registry=self.registry)
        self._requests = Counter(
            "trainshed_api_requests",
            "Requests to the API server.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._notes = Counter("trainshed_events_lost", "Events that could not be written.", registry=self.registry)
        self.waiting = Gauge("trainshed_queue_depth", "Jobs that wait for a look.", registry=self.registry)
        self.lag = Gauge("trainshed_loop_lag_seconds", "How late the event loop is.", registry=self.registry)
        self.ages = Gauge(
            "trainshed_watch_age_seconds", "Since when a watch is silent.", ("resource",), registry=self.registry
        )
        self.jobs = Gauge("trainshed_jobs", "Jobs by state.", ("framework", "state"), registry=self.registry)

    def looked(self, seconds: float) -> None:
        """A look at a job is over."""
        self._looks.observe(seconds)

    def waited(self, seconds: float) -> None:
        """A job's turn has come."""
        self._waits.observe(seconds)

    def lost(self) -> None:
        """An Event was not written."""
        self._notes.inc()

    def requested(self, verb: str, resource: str, code: int) -> None:
        """A request to the API server is over; code 0 says that there was no answer."""
        self._requests.labels(verb, resource, str(code or "none")).inc()

    def stored(self, snapshot: Snapshot, after: Status) -> None:
        """A status was stored in the place of the snapshot's."""
        before, job = snapshot.status, snapshot.job
        happened = {
            "created": after.true(Kind.CREATED) and not before.true(Kind.CREATED),
            "successful": after.true(Kind.SUCCEEDED) and not before.true(Kind.SUCCEEDED),
            "failed": after.true(Kind.FAILED) and not before.true(Kind.FAILED),
            "restarted": after.retries.used > before.retries.used,
        }
        for what, true in happened.items():
            if true:
                self._counters[what].labels(job.namespace, snapshot.framework.label).inc()

    def deleted(self, namespace: str, framework: Framework) -> None:
        """A job was deleted because its time was up."""
        self._counters["deleted"].labels(namespace, framework.label).inc()

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

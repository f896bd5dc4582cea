"""Metrics: v1's counters under v1's names, jobs by state, and metrics about the operator itself."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client import disable_created_metrics as without_created_series
from prometheus_client.registry import Collector

from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    Snapshot,
)
from trainshed.api.objects import POD_GROUP
from trainshed.api.status import ConditionType, Status
from trainshed.client import ApiError

from . import course
from .counters import Counters, Home
from .error_counters import ErrorCounters
from .gauges import Gauges

#: Every state of a job as a label value; New means that no condition is set yet.
STATES = ("New", *(str(kind) for kind in ConditionType))
#: Buckets in seconds. A reconcile without requests takes a millisecond, one that creates a thousand pods many seconds.
LOOK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Buckets in seconds. Pods of a small job start at once if their images are present; others wait hours for quota.
START = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
#: Buckets in seconds. Usually no job waits; after a restart with many jobs the last ones wait long.
WAIT = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All metrics in a registry of their own. No label contains a job's name, whose number of values is unbounded."""

    def __init__(self) -> None:
        # Creation times of counters are not used and would double the size of the response.
        without_created_series()  # type: ignore[no-untyped-call]
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self._counters = Counters(own)
        self._looks = Histogram("trainshed_reconcile_seconds", "Reconcile time in seconds.", registry=own, buckets=LOOK)
        self._waits = Histogram(
            "trainshed_queue_seconds", "Time a job waited in the work queue, in seconds.", registry=own, buckets=WAIT
        )
        self._errors = ErrorCounters(own)
        self._requests = Counter(
            "trainshed_api_requests", "Requests to the API server.", ("verb", "resource", "code"), registry=own
        )
        self._asked: dict[tuple[str, str, str], Counter] = {}
        self._failures = Counter(
            "trainshed_jobs_failed", "Failed jobs by failure class.", ("framework", "class"), registry=own
        )
        self._restarts = Counter(
            "trainshed_jobs_restarted", "Restarts by failure class.", ("framework", "class"), registry=own
        )
        self._startups = Histogram(
            "trainshed_job_startup_seconds",
            "Time from creation or resumption of a job until all its pods run, in seconds.",
            ("framework",),
            registry=own,
            buckets=START,
        )
        self.gauges = Gauges(own)
        self._jobs = Gauge("trainshed_jobs", "Jobs by state.", ("framework", "state"), registry=own)

    def looked(self, seconds: float) -> None:
        """Observe the duration of a reconcile."""
        self._looks.observe(seconds)

    def failed(self, error: ApiError) -> None:
        """Count a reconcile that failed with this error."""
        self._errors.failed(error)

    def crashed(self) -> None:
        """Count a reconcile that failed with an internal error."""
        self._errors.crashed()

    def rejected(self, snapshot: Snapshot) -> None:
        """Count a status update of this job that the API server rejected."""
        self._errors.rejected(snapshot.framework.label)

    def waited(self, seconds: float) -> None:
        """Observe the time that a job waited in the work queue."""
        self._waits.observe(seconds)

    def lost(self) -> None:
        """Count an Event that was not written."""
        self._errors.lost()

    def requested(self, verb: str, resource: str, code: int) -> None:
        """Count a request to the API server; code 0 means no response."""
        asked = (verb, resource, str(code or "none"))
        counter = self._asked.get(asked)
        if counter is None:  # looking up the labels takes longer than everything else here
            counter = self._asked[asked] = self._requests.labels(*asked)
        counter.inc()

    def stored(self, snapshot: Snapshot, after: Status) -> None:
        """Count what changed between the snapshot's status and the stored one."""
        before = snapshot.status
        happened = {
            "training_operator_jobs_created": course.became(ConditionType.CREATED, before, after),
            "training_operator_jobs_successful": course.became(ConditionType.SUCCEEDED, before, after),
            "training_operator_jobs_failed": course.became(ConditionType.FAILED, before, after),
            "training_operator_jobs_restarted": course.restarted(before, after),
        }
        for name, changed in happened.items():
            self._count(snapshot, name, int(changed))
        label = snapshot.framework.label
        if happened["training_operator_jobs_failed"]:
            self._failures.labels(label, course.cause_of_failure(snapshot, after)).inc()
        if happened["training_operator_jobs_restarted"]:
            self._restarts.labels(label, course.cause_of_restart(before, after)).inc()

    def started(self, snapshot: Snapshot, seconds: float) -> None:
        """Observe the startup time of a job."""
        self._startups.labels(snapshot.framework.label).observe(seconds)

    def done(self, snapshot: Snapshot, action: Action, *, well: bool) -> None:
        """Count an action that succeeded or failed."""
        match action:
            case CreatePod() if well:
                self._count(snapshot, "created_pods")
            case DeletePod() if well:
                self._count(snapshot, "deleted_pods")
            case CreateService():
                self._count(snapshot, "succeeded_service_creation" if well else "failed_service_creation")
            case DeleteJob() if well:
                self._count(snapshot, "training_operator_jobs_deleted")
            case CreateDependent() if well and action.resource.kind == POD_GROUP:
                self._count(snapshot, "created_pod_groups")
            case DeleteDependent() if well and action.resource.kind == POD_GROUP:
                self._count(snapshot, "deleted_pod_groups")

    def died(self, snapshot: Snapshot, pods: int) -> None:
        """Count failed pods of a job."""
        self._count(snapshot, "failed_pods", pods)

    def show(self, series: Collector) -> None:
        """Register another collector."""
        self.registry.register(series)

    def states(self, jobs: Mapping[tuple[str, str], int], labels: Mapping[str, str]) -> None:
        """Set the number of jobs by kind and state; missing states are 0. `labels` maps kinds to frameworks.

        It also creates the other series of each framework at 0, because `increase` needs a series that starts at 0.
        """
        for kind, framework in labels.items():
            self._startups.labels(framework)
            self._errors.rejected(framework, 0)
            for word in course.VERDICTS:
                self._failures.labels(framework, word)
            for word in course.CLASSES:
                self._restarts.labels(framework, word)
            for word in STATES:
                self._jobs.labels(framework, word).set(jobs.get((kind, word), 0))

    def forget(self, inhabited: set[Home]) -> None:
        """Remove the counters of namespaces without jobs; called periodically."""
        self._counters.forget(inhabited)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def _count(self, snapshot: Snapshot, name: str, by: int = 1) -> None:
        self._counters.count(Home(snapshot.job.namespace, snapshot.framework.label), name, by)

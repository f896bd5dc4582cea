"""What is counted: v1's counters by their names, jobs by state, and how the operator itself does."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client import disable_created_metrics as without_birthdays
from prometheus_client.registry import Collector

from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
)
from trainshed.api.dependent import GROUP
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Kind, Status
from trainshed.cluster import ClusterError

from . import course
from .counters import Counters, Home
from .error_counters import ErrorCounters
from .gauges import Gauges

#: Every state that a job may be in, by the meters' word for it; New has no condition yet.
STATES = ("New", *(str(kind) for kind in Kind))
#: Seconds. A look that has nothing to do takes a millisecond, one that makes a thousand pods many seconds.
LOOK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Seconds. Pods of a small job run at once where images are there; others wait for hours for their share of a cluster.
START = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
#: Seconds. At rest nobody waits; after a restart with many jobs the last of them wait long.
WAIT = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All meters, in a registry of their own. Labels never hold the name of a job: there is no end of those."""

    def __init__(self) -> None:
        # When a counter was first used is of no use, and would double what is served.
        without_birthdays()  # type: ignore[no-untyped-call]
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
        """A look at a job is over."""
        self._looks.observe(seconds)

    def failed(self, error: ClusterError) -> None:
        """A look has ended in this error."""
        self._errors.failed(error)

    def crashed(self) -> None:
        """A look has ended in an error of the operator itself."""
        self._errors.crashed()

    def rejected(self, snapshot: Snapshot) -> None:
        """The server does not accept the status of this job."""
        self._errors.rejected(snapshot.framework.label)

    def waited(self, seconds: float) -> None:
        """A job's turn has come."""
        self._waits.observe(seconds)

    def lost(self) -> None:
        """An Event was not written."""
        self._errors.lost()

    def requested(self, verb: str, resource: str, code: int) -> None:
        """A request to the API server is over; code 0 says that there was no answer."""
        asked = (verb, resource, str(code or "none"))
        counter = self._asked.get(asked)
        if counter is None:  # to look a counter up by its labels takes longer than all else that is done for a request
            counter = self._asked[asked] = self._requests.labels(*asked)
        counter.inc()

    def stored(self, snapshot: Snapshot, after: Status) -> None:
        """A status was stored in the place of the snapshot's."""
        before = snapshot.status
        happened = {
            "training_operator_jobs_created": course.became(Kind.CREATED, before, after),
            "training_operator_jobs_successful": course.became(Kind.SUCCEEDED, before, after),
            "training_operator_jobs_failed": course.became(Kind.FAILED, before, after),
            "training_operator_jobs_restarted": course.restarted(before, after),
        }
        for name, so in happened.items():
            self._count(snapshot, name, int(so))
        label = snapshot.framework.label
        if happened["training_operator_jobs_failed"]:
            self._failures.labels(label, course.cause_of_failure(snapshot, after)).inc()
        if happened["training_operator_jobs_restarted"]:
            self._restarts.labels(label, course.cause_of_restart(before, after)).inc()

    def started(self, snapshot: Snapshot, seconds: float) -> None:
        """All pods of a job have come to run, so many seconds after it might have had them."""
        self._startups.labels(snapshot.framework.label).observe(seconds)

    def done(self, snapshot: Snapshot, action: Action, *, well: bool) -> None:
        """An action on a job was carried out, or was tried in vain."""
        match action:
            case CreatePod() if well:
                self._count(snapshot, "created_pods")
            case DeletePod() if well:
                self._count(snapshot, "deleted_pods")
            case CreateService():
                self._count(snapshot, "succeeded_service_creation" if well else "failed_service_creation")
            case DeleteJob() if well:
                self._count(snapshot, "training_operator_jobs_deleted")
            case CreateDependent() if well and action.resource.kind == GROUP:
                self._count(snapshot, "created_pod_groups")
            case DeleteDependent() if well and action.resource.kind == GROUP:
                self._count(snapshot, "deleted_pod_groups")

    def died(self, snapshot: Snapshot, pods: int) -> None:
        """So many more pods of a job have failed."""
        self._count(snapshot, "failed_pods", pods)

    def show(self, series: Collector) -> None:
        """Show these as well."""
        self.registry.register(series)

    def states(self, jobs: Mapping[tuple[str, str], int], labels: Mapping[str, str]) -> None:
        """So many jobs there are of each kind in each state, of all others none; `labels` are the kinds' by meters.

        What else is told of each framework begins at 0 with that: only a rise from 0 can be seen as one.
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
        """Asked now and then: what is counted by namespace ends with a namespace's jobs, a while after the last."""
        self._counters.forget(inhabited)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _count(self, snapshot: Snapshot, name: str, by: int = 1) -> None:
        self._counters.count(Home(snapshot.job.namespace, snapshot.framework.label), name, by)

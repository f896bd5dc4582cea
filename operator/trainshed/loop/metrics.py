"""What is counted: v1's counters by their names, jobs by state, and how the operator itself does."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client import disable_created_metrics as without_birthdays

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

LABELS = ("job_namespace", "framework")
#: Every state that a job may be in, by the meters' word for it; New has no condition yet.
STATES = ("New", *(str(kind) for kind in Kind))
#: v1's counters, without the `_total` that the client adds, and what each means.
COUNTERS = {
    "training_operator_jobs_created": "Jobs that were taken up: their first status was stored.",
    "training_operator_jobs_deleted": "Jobs that were deleted because their time to live was over.",
    "training_operator_jobs_successful": "Jobs that have succeeded.",
    "training_operator_jobs_failed": "Jobs that have failed, whatever the reason.",
    "training_operator_jobs_restarted": "Restarts by the operator, of whole jobs or of some of their pods.",
    "created_pods": "Pods that were created.",
    "deleted_pods": "Pods that the operator has deleted.",
    "failed_pods": "Pods that were seen to have failed.",
    "succeeded_service_creation": "Services that were created.",
    "failed_service_creation": "Services that could not be created, each try counted.",
    "created_pod_groups": "Pod groups that were created for a gang scheduler.",
    "deleted_pod_groups": "Pod groups that were deleted.",
}
#: Seconds. A look that has nothing to do takes a millisecond, one that makes a thousand pods many seconds.
LOOK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Seconds. At rest nobody waits; after a restart with many jobs the last of them wait long.
WAIT = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All meters, in a registry of their own. Labels never hold the name of a job: there is no end of those."""

    def __init__(self) -> None:
        # When a counter was first used is of no use, and would double what is served.
        without_birthdays()  # type: ignore[no-untyped-call]
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self._counters = {name: Counter(name, told, LABELS, registry=own) for name, told in COUNTERS.items()}
        self._looks = Histogram("trainshed_reconcile_seconds", "Seconds that a look took.", registry=own, buckets=LOOK)
        self._waits = Histogram("trainshed_queue_seconds", "Seconds that a job waited.", registry=own, buckets=WAIT)
        self._errors = Counter("trainshed_reconcile_errors", "Looks that ended in an error.", ("error",), registry=own)
        self._requests = Counter(
            "trainshed_api_requests", "Requests to the API server.", ("verb", "resource", "code"), registry=own
        )
        self._notes = Counter("trainshed_events_lost", "Events that could not be written.", registry=own)
        self.waiting = Gauge("trainshed_queue_depth", "Jobs that wait for a look.", registry=own)
        self.lag = Gauge("trainshed_loop_lag_seconds", "How late the event loop is.", registry=own)
        self.leading = Gauge("trainshed_leader", "Whether this process is the one that acts.", registry=own)
        self.ages = Gauge("trainshed_watch_age_seconds", "Since when a watch is silent.", ("resource",), registry=own)
        self._jobs = Gauge("trainshed_jobs", "Jobs by state.", ("framework", "state"), registry=own)

    def looked(self, seconds: float) -> None:
        """A look at a job is over."""
        self._looks.observe(seconds)

    def failed(self, error: Exception) -> None:
        """A look has ended in this error."""
        self._errors.labels(type(error).__name__).inc()

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
        before = snapshot.status
        happened = {
            "training_operator_jobs_created": _became(Kind.CREATED, before, after),
            "training_operator_jobs_successful": _became(Kind.SUCCEEDED, before, after),
            "training_operator_jobs_failed": _became(Kind.FAILED, before, after),
            "training_operator_jobs_restarted": _restarted(before, after),
        }
        for name in COUNTERS:  # all of them are shown from now on: only a rise from 0 can be seen as one
            self._count(snapshot, name, int(happened.get(name, False)))

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

    def states(self, jobs: Mapping[tuple[str, str], int], frameworks: tuple[str, ...]) -> None:
        """So many jobs there are of each framework in each state; of all others none."""
        for framework in frameworks:
            for word in STATES:
                self._jobs.labels(framework, word).set(jobs.get((framework, word), 0))

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _count(self, snapshot: Snapshot, name: str, by: int = 1) -> None:
        self._counters[name].labels(snapshot.job.namespace, snapshot.framework.label).inc(by)


def state(status: Status) -> str:
    """What a job is doing: the last thing that is true of it."""
    return next((str(condition.type) for condition in reversed(status.conditions) if condition.true), "New")


def _became(kind: Kind, before: Status, after: Status) -> bool:
    return after.true(kind) and not before.true(kind)


def _restarted(before: Status, after: Status) -> bool:
    """Whether pods were given up on to be made again. Those of a job that is suspended are not."""
    if after.true(Kind.SUSPENDED):
        return False
    anew = any(count > before.attempts.get(role, 0) for role, count in after.attempts.items())
    return anew or not set(after.replacing) <= set(before.replacing)

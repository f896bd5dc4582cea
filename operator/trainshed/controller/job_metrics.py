"""Metrics of jobs, derived from their statuses and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from trainshed.api.actions import Snapshot
from trainshed.api.job import JobKey
from trainshed.api.objects import Phase, Pod
from trainshed.api.status import ConditionType, Status
from trainshed.plan.failures import APPLICATION, DISRUPTION, INFRASTRUCTURE

from .store import CachedJob

#: Why a job failed or was restarted: its spec is invalid, its deadline has passed, or the class of its first failure.
#: `Other` means that the status has no class.
INVALID, DEADLINE, OTHER = "Invalid", "Deadline", "Other"
CLASSES = (APPLICATION, INFRASTRUCTURE, DISRUPTION, OTHER)
FAILURE_CLASSES = (INVALID, DEADLINE, *CLASSES)


def job_state(status: Status) -> str:
    """Return the state of a job: the type of its decisive condition."""
    return str(status.decisive.type) if status.decisive else "New"


def turned_true(kind: ConditionType, before: Status, after: Status) -> bool:
    """Return whether this condition is true now and was not before."""
    return after.true(kind) and not before.true(kind)


def restarted(before: Status, after: Status) -> bool:
    """Return whether pods were given up to be created again; pods of a suspended job do not count."""
    if after.true(ConditionType.SUSPENDED):
        return False
    new_attempt = any(count != before.attempts.get(role, 0) for role, count in after.attempts.items())
    return new_attempt or not set(after.pending_replacement) <= set(before.pending_replacement)


def cause_of_restart(before: Status, after: Status) -> str:
    """Return the class of the failure that caused a restart."""
    newest = (
        after.recent_restarts[-1].kind
        if after.recent_restarts and after.recent_restarts != before.recent_restarts
        else ""
    )
    return newest if newest in CLASSES else OTHER


def cause_of_failure(snapshot: Snapshot, after: Status) -> str:
    """Return the class of a failed job; in the order in which the planner's rules apply."""
    job, failure = snapshot.job, after.failure
    if job.problems:
        return INVALID
    end = after.start + timedelta(seconds=job.policy.deadline) if after.start and job.policy.deadline else None
    if end is not None and snapshot.now >= end:
        return DEADLINE
    return failure.kind if failure and failure.kind in CLASSES else OTHER


class FailedPods:
    """Keeps the failed pods of each job while they exist.

    A pod that fails while it is being deleted does not count: its containers were killed by the deletion, such as
    those of parameter servers by cleanPodPolicy.
    """

    def __init__(self) -> None:
        self._known: dict[JobKey, tuple[str, frozenset[str]]] = {}

    def count_new(self, key: JobKey, snapshot: Snapshot) -> int:
        """Return how many pods have failed since the last reconcile of the job."""
        failed = frozenset(pod.uid for pod in snapshot.pods if _has_failed(pod))
        uid, before = self._known.get(key, ("", frozenset()))
        self._known[key] = (snapshot.job.uid, failed)
        return len(failed - before) if uid == snapshot.job.uid else _uncounted(snapshot)

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""
        self._known.pop(key, None)


def _has_failed(pod: Pod) -> bool:
    return pod.phase is Phase.FAILED and not pod.deleting


def _uncounted(snapshot: Snapshot) -> int:
    """Return how many failed pods the stored status does not yet count or give up."""
    status = snapshot.status
    attempts = {role.lower(): attempt for role, attempt in status.attempts.items()}
    current = [
        pod
        for pod in snapshot.pods
        if _has_failed(pod) and pod.uid not in status.pending_replacement and pod.attempt == attempts.get(pod.role, 0)
    ]
    return max(0, len(current) - sum(replica_status.failed for replica_status in status.replica_statuses.values()))


#: The phases of a pod that has started.
STARTED_PHASES = (Phase.RUNNING, Phase.SUCCEEDED)


class StartupTimes:
    """Keeps the start times of the jobs that this process saw start; other jobs are not measured."""

    def __init__(self) -> None:
        self._since: dict[JobKey, datetime] = {}

    def on_status_stored(self, key: JobKey, snapshot: Snapshot, after: Status) -> None:
        """Record the start, or its end, from a stored status."""
        before = snapshot.status
        if after.over or after.true(ConditionType.SUSPENDED):
            self.forget(key)
        elif before.true(ConditionType.SUSPENDED):
            self._since[key] = snapshot.now
        elif turned_true(ConditionType.CREATED, before, after):
            self._since[key] = snapshot.job.created or snapshot.now

    def observe(self, key: JobKey, snapshot: Snapshot) -> float | None:
        """Return the startup time in seconds when all pods run for the first time, else None."""
        since = self._since.get(key)
        if since is None or sum(pod.phase in STARTED_PHASES for pod in snapshot.pods) < snapshot.job.size:
            return None
        self.forget(key)
        return max(0.0, (snapshot.now - since).total_seconds())

    def forget(self, key: JobKey) -> None:
        """Forget a job that is deleted or not starting."""
        self._since.pop(key, None)


#: The maximum number of jobs with series of their own; the others are only counted.
MAX_JOBS = 1000
JOB_LABELS = ("job_namespace", "kind", "job_name")


class JobCollector(Collector):
    """The collector of per-job metrics; the series of a job end with the job."""

    def __init__(self, jobs: Callable[[], Iterable[CachedJob]], now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield all series; jobs are sorted by name, so that the same ones are included in each scrape."""
        found = sorted((record for record in self._jobs() if not record.status.over), key=_names)
        now = self._now()
        states = GaugeMetricFamily(
            "trainshed_job_state", "1 for the current state of a job.", labels=(*JOB_LABELS, "state")
        )
        families = [GaugeMetricFamily(name, help_text, labels=JOB_LABELS) for name, help_text, _ in JOB_METRICS]
        for record in islice(found, MAX_JOBS):
            states.add_metric((*_names(record), job_state(record.status)), 1)
            for family, (_, _, value) in zip(families, JOB_METRICS, strict=True):
                family.add_metric(_names(record), value(record, now))
        yield from (states, *families)
        beyond = max(0, len(found) - MAX_JOBS)
        yield GaugeMetricFamily(
            "trainshed_job_metrics_truncated", "Jobs without per-job metrics because of the limit.", beyond
        )


def _names(record: CachedJob) -> tuple[str, str, str]:
    return record.job.namespace, record.job.kind, record.job.name


def _age(record: CachedJob, now: datetime) -> float:
    return max(0.0, (now - record.job.created).total_seconds()) if record.job.created else 0.0


def _active(record: CachedJob, _now: datetime) -> float:
    return sum(replica_status.active for replica_status in record.status.replica_statuses.values())


def _counted_restarts(record: CachedJob, _now: datetime) -> float:
    return record.status.retries.used


#: The series of each job besides its state: name, help text and value.
JOB_METRICS: tuple[tuple[str, str, Callable[[CachedJob, datetime], float]], ...] = (
    ("trainshed_job_age_seconds", "Age of a job in seconds.", _age),
    ("trainshed_job_active_pods", "Active pods of a job.", _active),
    ("trainshed_job_counted_restarts", "Restarts of a job that count against its backoffLimit.", _counted_restarts),
)

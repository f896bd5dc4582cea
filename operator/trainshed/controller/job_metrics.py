"""What is counted and measured of jobs, derived from their statuses and pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainshed.api.actions import Snapshot
from trainshed.api.job import JobKey
from trainshed.api.objects import Phase
from trainshed.api.status import ConditionType, Status
from trainshed.plan.failures import APPLICATION, DISRUPTION, INFRASTRUCTURE

#: Why a job failed or was restarted: its spec is invalid, its deadline has passed, or the class of its first failure.
#: `Other` means that the status has no class.
INVALID, DEADLINE, OTHER = "Invalid", "Deadline", "Other"
CLASSES = (APPLICATION, INFRASTRUCTURE, DISRUPTION, OTHER)
FAILURE_CLASSES = (INVALID, DEADLINE, *CLASSES)


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
        failed = frozenset([pod.uid for pod in snapshot.pods if pod.phase is Phase.FAILED and not pod.deleting])
        uid, before = self._known.get(key, ("", frozenset()))
        self._known[key] = (snapshot.job.uid, failed)
        return len(failed - before) if uid == snapshot.job.uid else _uncounted(snapshot, failed)

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""
        self._known.pop(key, None)


def _uncounted(snapshot: Snapshot, failed: frozenset[str]) -> int:
    """Return how many of the pods that have failed, given by uid, the stored status does not yet count or give up."""
    status = snapshot.status
    attempts = {role.lower(): attempt for role, attempt in status.attempts.items()}
    current = [
        pod
        for pod in snapshot.pods
        if pod.uid in failed and pod.uid not in status.pending_replacement and pod.attempt == attempts.get(pod.role, 0)
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
        if since is None or len(snapshot.pods) < snapshot.job.size:
            return None
        if sum([pod.phase in STARTED_PHASES for pod in snapshot.pods]) < snapshot.job.size:
            return None
        self.forget(key)
        return max(0.0, (snapshot.now - since).total_seconds())

    def forget(self, key: JobKey) -> None:
        """Forget a job that is deleted or not starting."""
        self._since.pop(key, None)

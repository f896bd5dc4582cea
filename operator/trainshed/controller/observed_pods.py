"""What is remembered of pods and jobs: to count failed pods and starts once, and how often jobs are scaled down.

The cache has the pods that a watch reports; `left_pods.py` has those that it no longer reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from trainshed.api.actions import Action, DeletePod, DeleteService, ScaleDown, Snapshot
from trainshed.api.job import Job, JobKey
from trainshed.api.objects import Phase
from trainshed.api.replicas import replicas_by_name
from trainshed.api.status import ConditionType, Status


class FailedPods:
    """Keeps the failed pods of each job while they exist.

    A pod that fails while it is being deleted does not count: its containers were killed by the deletion, such as
    those of parameter servers by cleanPodPolicy.
    """

    def __init__(self) -> None:
        self._known: dict[JobKey, tuple[str, frozenset[str]]] = {}

    def count_new(self, snapshot: Snapshot) -> int:
        """Return how many pods have failed since the last reconcile of the job."""
        key = snapshot.job.key
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
    pods = {pod.name: pod for pod in snapshot.pods if pod.uid in failed and pod.uid not in status.pending_replacement}
    replicas = replicas_by_name(snapshot.job, list(pods)).items()
    current = [name for name, replica in replicas if pods[name].attempt == status.attempts.get(replica.role, 0)]
    return max(0, len(current) - sum(replica_status.failed for replica_status in status.replica_statuses.values()))


#: The phases of a pod that has started.
STARTED_PHASES = (Phase.RUNNING, Phase.SUCCEEDED)


class StartupTimes:
    """Keeps the start times of the jobs that this process saw start; other jobs are not measured."""

    def __init__(self) -> None:
        self._since: dict[JobKey, datetime] = {}

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Record the start, or its end, from a stored status."""
        key, before = snapshot.job.key, snapshot.status
        if after.over or after.true(ConditionType.SUSPENDED):
            self.forget(key)
        elif before.true(ConditionType.SUSPENDED):
            self._since[key] = snapshot.now
        elif after.turned_true(ConditionType.CREATED, before):
            self._since[key] = snapshot.job.created or snapshot.now

    def observe(self, snapshot: Snapshot) -> float | None:
        """Return the startup time in seconds when all pods run for the first time, else None."""
        since = self._since.get(snapshot.job.key)
        if since is None or len(snapshot.pods) < snapshot.job.size:
            return None
        if sum([pod.phase in STARTED_PHASES for pod in snapshot.pods]) < snapshot.job.size:
            return None
        self.forget(snapshot.job.key)
        return max(0.0, (snapshot.now - since).total_seconds())

    def forget(self, key: JobKey) -> None:
        """Forget a job that is deleted or not starting."""
        self._since.pop(key, None)


class ScaleDowns:
    """How often in a row the spec of each job was changed so that pods or Services of it had to be deleted.

    Two scale-downs that are further apart than `MEMORY` are not in a row. What is deleted for the same spec, or once
    the job is over, is no scale-down of its own.
    """

    MEMORY = timedelta(seconds=20)

    def __init__(self) -> None:
        #: By job: the generation that was scaled down to, the one that was seen last, and the scale-down.
        self._last: dict[JobKey, tuple[int, int, ScaleDown]] = {}

    def observe(self, snapshot: Snapshot, actions: Iterable[Action]) -> None:
        """Remember a scale-down that these actions begin to carry out."""
        job, now = snapshot.job, snapshot.now
        names = {action.name for action in actions if isinstance(action, (DeletePod, DeleteService))}
        if not names or snapshot.status.over:
            return
        if not job.policy.suspend and len(replicas_by_name(job, names)) == len(names):
            return
        if (known := self._last.get(job.key)) is None or known[0] != job.generation:
            before = snapshot.scale_down.count if snapshot.scale_down else 0
            self._last[job.key] = job.generation, job.generation, ScaleDown(before + 1, now, now)

    def last(self, job: Job, now: datetime) -> ScaleDown | None:
        """Return the last scale-down of a job, None if it was longer ago than `MEMORY`."""
        if (known := self._last.get(job.key)) is None:
            return None
        scaled_down_to, seen, found = known
        if abs(now - found.time) > self.MEMORY:
            del self._last[job.key]
            return None
        if seen != job.generation:
            found = replace(found, changed=now)
            self._last[job.key] = scaled_down_to, job.generation, found
        return found

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""
        self._last.pop(key, None)

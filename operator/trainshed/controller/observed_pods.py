"""What is remembered of pods: to count failed pods and starts once, how often pods were lost, and which may be hidden.

The cache has the pods that a watch reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from trainshed.api.actions import Action, DeletePod, DeleteService, LostPod, ScaleDown, Snapshot
from trainshed.api.job import Job, JobKey
from trainshed.api.objects import Phase, Pod
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


#: The namespace and the uid of a job.
Owner: TypeAlias = tuple[str, str]


class LostPods:
    """The pods of a job that others have deleted, by name, for `MEMORY`; `MOST` names, as users invent owners."""

    MEMORY, MOST = timedelta(minutes=10), 10_000

    def __init__(self) -> None:
        self._new: Counter[str] = Counter()
        self._known: dict[str, LostPod] = {}

    def add(self, name: str) -> None:
        """Count a pod that is gone."""
        if name in self._new or len(self._new) + len(self._known) < self.MOST:
            self._new[name] += 1

    def since(self, now: datetime) -> tuple[LostPod, ...]:
        """Return how often which pods were lost; what was counted since the last call has the time `now`."""
        self._known = {name: pod for name, pod in self._known.items() if now - pod.time <= self.MEMORY}
        for name, count in self._new.items():
            before = self._known[name].count if name in self._known else 0
            self._known[name] = LostPod(name, before + count, now)
        self._new.clear()
        return tuple(self._known.values())


class UnwatchedPods:
    """The pods of jobs that have left the watch while nothing showed that they are gone; `MOST` of a job.

    The last state of a pod that the API server has removed is a deletion whose grace period is over, or was cut to 0.
    Any other pod may have lost the label that the watch selects.
    """

    MOST = 10_000

    def __init__(self) -> None:
        self._by_job: dict[Owner, dict[str, Pod]] = {}
        self._owners: dict[str, tuple[Owner, str]] = {}

    def of(self, job: Owner) -> tuple[Pod, ...]:
        """Return those of a job, as they last were."""
        return tuple(self._by_job.get(job, {}).values())

    def left(self, job: Owner, pod: Pod) -> None:
        """Remember a pod, or its new state."""
        self.gone(pod.uid)
        known = self._by_job.setdefault(job, {})
        if not (pod.deleting and not pod.grace) and len(known) < self.MOST:
            known[pod.name] = pod
            self._owners[pod.uid] = job, pod.name

    def gone(self, uid: str) -> None:
        """Forget a pod that is gone."""
        if uid in self._owners:
            self.free(*self._owners[uid])

    def free(self, job: Owner, name: str) -> None:
        """Forget the pod of this name: none has it, or another one, or this one is watched again."""
        pod = self._by_job.get(job, {}).pop(name, None)
        if pod is not None:
            del self._owners[pod.uid]

    def forget(self, job: Owner) -> None:
        """Forget the pods of a job that is gone."""
        for pod in self._by_job.pop(job, {}).values():
            del self._owners[pod.uid]


class HiddenPod(msgspec.Struct, frozen=True):
    """What identifies a pod that no watch reports."""

    namespace: str
    name: str
    uid: str


class HiddenPods:
    """The pods whose finalizer was still there when a watch reported them last; `MOST`, the first ones are forgotten.

    They are gone by now, or have lost the label that the watch selects.
    """

    MOST = 20_000

    def __init__(self) -> None:
        self._known: dict[str, HiddenPod] = {}
        self._old: tuple[str, ...] = ()

    def all(self) -> tuple[HiddenPod, ...]:
        """Return them."""
        return tuple(self._known.values())

    def add(self, pod: Pod) -> None:
        """Remember a pod."""
        self._known[pod.uid] = HiddenPod(pod.namespace, pod.name, pod.uid)
        if len(self._known) > self.MOST:
            self.discard(next(iter(self._known)))

    def discard(self, uid: str) -> None:
        """Forget a pod, if it is known."""
        self._known.pop(uid, None)

    def forget_old(self) -> None:
        """Forget those that were known at the last call."""
        for uid in self._old:
            self.discard(uid)
        self._old = tuple(self._known)


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

"""What is remembered of pods that the watch no longer reports: which may be hidden, and how often pods were lost.

Users invent pods of their jobs, and take them away, as often as they like: all this is limited, and shared fairly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

import msgspec

from trainshed.api.actions import LostPod, Snapshot
from trainshed.api.job import CleanPodPolicy, Job
from trainshed.api.objects import Container, Pod
from trainshed.api.replicas import replica_named
from trainshed.api.status import Status

T = TypeVar("T")
#: The namespace and the uid of a job.
Owner: TypeAlias = tuple[str, str]


class Shares(Generic[T]):
    """What is known of the pods of jobs, by job and key: at most `most`, and at most `most_of_job` of each job.

    If there are more, one is forgotten: of the namespace that has the most, of its job that has the most, the oldest.
    So no namespace loses anything because of another one that has more.
    """

    def __init__(self, most: int, most_of_job: int | None = None) -> None:
        self._most, self._most_of_job = most, most_of_job or most
        self._known: dict[str, dict[str, dict[str, T]]] = {}
        self._numbers: Counter[str] = Counter()

    def of(self, job: Owner) -> Mapping[str, T]:
        """Return what is known of a job, by key, the oldest first."""
        return self._known.get(job[0], {}).get(job[1], {})

    def all(self) -> tuple[T, ...]:
        """Return everything that is known."""
        return tuple(value for jobs in self._known.values() for found in jobs.values() for value in found.values())

    def put(self, job: Owner, key: str, value: T) -> tuple[Owner, T] | None:
        """Remember the newest; return what is forgotten for it, None if nothing is."""
        self.pop(job, key)
        namespace, uid = job
        self._known.setdefault(namespace, {}).setdefault(uid, {})[key] = value
        self._numbers[namespace] += 1
        if len(self.of(job)) > self._most_of_job:
            return self._forget_oldest(job)
        if self._numbers.total() <= self._most:
            return None
        largest = max(self._numbers, key=self._numbers.__getitem__)
        jobs = self._known[largest]
        return self._forget_oldest((largest, max(jobs, key=lambda each: len(jobs[each]))))

    def pop(self, job: Owner, key: str) -> T | None:
        """Forget one; return it, None if it is not known."""
        namespace, uid = job
        found = self._known.get(namespace, {}).get(uid, {})
        if key not in found:
            return None
        value = found.pop(key)
        self._numbers[namespace] -= 1
        if not found:
            del self._known[namespace][uid]
        if not self._numbers[namespace]:
            del self._numbers[namespace], self._known[namespace]
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._numbers.clear()

    def _forget_oldest(self, job: Owner) -> tuple[Owner, T] | None:
        value = self.pop(job, next(iter(self.of(job))))
        return (job, value) if value is not None else None


class _Loss(msgspec.Struct, frozen=True):
    """How often a pod of a name was lost: until the last snapshot, and since."""

    before: LostPod | None
    new: int


class LostPods:
    """The pods of jobs that others have deleted, by name, for `MEMORY`; only those that the spec requests."""

    MEMORY, MOST = timedelta(minutes=10), 10_000

    def __init__(self) -> None:
        self._known: Shares[_Loss] = Shares(self.MOST)

    def add(self, job: Job, name: str) -> None:
        """Count a pod that is gone."""
        owner = job.namespace, job.uid
        if _is_requested(job, name):
            known = self._known.of(owner).get(name)
            self._known.put(owner, name, _Loss(known.before, known.new + 1) if known else _Loss(None, 1))

    def since(self, job: Owner, now: datetime) -> tuple[LostPod, ...]:
        """Return how often which pods were lost; what was counted since the last call has the time `now`."""
        for name, loss in tuple(self._known.of(job).items()):
            before = loss.before if loss.before and now - loss.before.time <= self.MEMORY else None
            if loss.new:
                found = LostPod(name, (before.count if before else 0) + loss.new, now)
                self._known.put(job, name, _Loss(found, 0))
            elif before is None:
                self._known.pop(job, name)
        return tuple(loss.before for loss in self._known.of(job).values() if loss.before)

    def forget(self, job: Owner) -> None:
        """Forget those of a job."""
        for name in tuple(self._known.of(job)):
            self._known.pop(job, name)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


class UnwatchedPods:
    """The pods of jobs that have left the watch while nothing showed that they are gone.

    The last state of a pod that the API server has removed is a deletion whose grace period is over, or was cut to 0.
    Any other pod may have lost the label that the watch selects. Those of which the spec requested the name when they
    left are known apart from the others, which users invent or have scaled down: so these displace none of those.
    """

    MOST, MOST_OTHERS, MOST_OTHERS_OF_JOB = 10_000, 2_000, 64

    def __init__(self) -> None:
        self._requested: Shares[Pod] = Shares(self.MOST)
        self._others: Shares[Pod] = Shares(self.MOST_OTHERS, self.MOST_OTHERS_OF_JOB)
        self._owners: dict[str, tuple[Owner, str]] = {}

    def of(self, job: Owner) -> tuple[Pod, ...]:
        """Return those of a job, as they last were; first those that the spec requested."""
        return *self._requested.of(job).values(), *self._others.of(job).values()

    def left(self, job: Job, pod: Pod) -> Owner | None:
        """Remember a pod, or its new state; return the job of which another one is forgotten, if that is so."""
        owner = job.namespace, job.uid
        self.gone(pod.uid)
        self.free(owner, pod.name)
        if pod.deleting and not pod.grace:
            return None
        self._owners[pod.uid] = owner, pod.name
        known = self._requested if _is_requested(job, pod.name) else self._others
        forgotten = known.put(owner, pod.name, _shortened(pod, owner))
        if forgotten is None:
            return None
        del self._owners[forgotten[1].uid]
        return forgotten[0]

    def gone(self, uid: str) -> None:
        """Forget a pod that is gone."""
        if uid in self._owners:
            self.free(*self._owners[uid])

    def free(self, job: Owner, name: str) -> None:
        """Forget the pod of this name: none has it, or another one, or this one is watched again."""
        pod = self._requested.pop(job, name) or self._others.pop(job, name)
        if pod is not None:
            del self._owners[pod.uid]

    def forget(self, job: Owner) -> None:
        """Forget the pods of a job that is gone, or that needs them no longer."""
        for pod in self.of(job):
            self.free(job, pod.name)


def _is_requested(job: Job, name: str) -> bool:
    replica = replica_named(job, [group.role for group in job.groups], name)
    group = job.of(replica.role) if replica else None
    return bool(replica and group and replica.index < group.count)


#: The containers of a pod in brief: all have ended, or one has not.
ENDED, RUNNING = (Container("", exit_code=0),), (Container(""),)


def _shortened(pod: Pod, owner: Owner) -> Pod:
    """Return what is needed of a pod to count it, to delete it, and to say why it is still terminating.

    A finalizer is removed by a list of those that stay: of a pod with several others it has to be read before.
    """
    namespace, uid = owner
    proper = [container.exit_code is not None for container in pod.containers if not container.sidecar]
    return Pod(
        name=pod.name,
        uid=pod.uid,
        version=pod.version,
        owner=uid,
        namespace=namespace,
        job="",
        role="",
        index=-1,
        attempt=pod.attempt,
        phase=pod.phase,
        deleting=pod.deleting,
        node=pod.node,
        disrupted=pod.disrupted,
        containers=() if not proper else ENDED if all(proper) else RUNNING,
        deletion_timestamp=pod.deletion_timestamp,
        grace=pod.grace,
        finalizers=pod.finalizers[:1],
        has_finalizer=pod.has_finalizer and len(pod.finalizers) <= 1,
    )


class HiddenPod(msgspec.Struct, frozen=True):
    """What identifies a pod that no watch reports."""

    namespace: str
    name: str
    uid: str


class HiddenPods:
    """The pods whose finalizer was still there when a watch reported them last.

    They are gone by now, or have lost the label that the watch selects.
    """

    MOST = 20_000

    def __init__(self) -> None:
        self._known: Shares[HiddenPod] = Shares(self.MOST)
        self._owners: dict[str, Owner] = {}
        self._old: tuple[str, ...] = ()

    def all(self) -> tuple[HiddenPod, ...]:
        """Return them."""
        return self._known.all()

    def add(self, pod: Pod) -> None:
        """Remember a pod."""
        self.discard(pod.uid)
        self._owners[pod.uid] = _owner_of(pod)
        forgotten = self._known.put(_owner_of(pod), pod.uid, HiddenPod(pod.namespace, pod.name, pod.uid))
        if forgotten:
            del self._owners[forgotten[1].uid]

    def discard(self, uid: str) -> None:
        """Forget a pod, if it is known."""
        owner = self._owners.pop(uid, None)
        if owner is not None:
            self._known.pop(owner, uid)

    def forget_old(self) -> None:
        """Forget those that were known at the last call."""
        for uid in self._old:
            self.discard(uid)
        self._old = tuple(self._owners)


class LeftPods:
    """What is remembered of the pods that have left the watch, of the cached jobs that `job_of` returns, with status.

    `releases` is whether the operator's finalizer is removed from pods that are hidden.
    """

    def __init__(self, job_of: Callable[[Owner], tuple[Job, Status] | None], *, releases: bool) -> None:
        self._job_of, self._releases = job_of, releases
        self.hidden = HiddenPods()
        self._unwatched, self._lost = UnwatchedPods(), LostPods()
        #: The jobs whose stored counts are of this process, and those of which a pod was forgotten that may be there.
        self._counted, self._incomplete = set[str](), set[str]()

    def in_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot of a job with what is remembered of its pods."""
        owner = snapshot.job.namespace, snapshot.job.uid
        return msgspec.structs.replace(
            snapshot,
            unwatched=self._unwatched.of(owner),
            counted_here=snapshot.job.uid in self._counted,
            lost_pods=self._lost.since(owner, snapshot.now),
        )

    def unwatched(self, snapshot: Snapshot) -> tuple[Pod, ...]:
        """Return the pods of the job of a snapshot that have left the watch and are not known to be gone."""
        return self._unwatched.of((snapshot.job.namespace, snapshot.job.uid))

    def left(self, uid: str, pod: Pod | None) -> None:
        """Remember a pod that has left the watch, or its new state; None if it is gone."""
        if pod is None:
            self._unwatched.gone(uid)
        else:
            self._remember(pod, _owner_of(pod))
        if pod is not None and pod.has_finalizer and self._releases:
            self.hidden.add(pod)
        else:
            self.hidden.discard(uid)

    def found(self, pod: Pod | None) -> None:
        """Remember a pod, if there is one, that was found with the finalizer and that no watch reports."""
        if pod is not None:
            self.left(pod.uid, pod)

    def sought(self, snapshot: Snapshot, name: str, found: Pod | None) -> None:
        """Remember the pod of this name that the job has and no watch reports, or that there is none."""
        owner = snapshot.job.namespace, snapshot.job.uid
        if found is None:
            self._unwatched.free(owner, name)
        else:
            self._remember(found, owner)

    def watched(self, pod: Pod) -> None:
        """Forget a pod that the watch reports."""
        self._unwatched.free(_owner_of(pod), pod.name)

    def lost(self, pod: Pod) -> None:
        """Count a pod that is gone, which the operator has not deleted."""
        if not pod.over:
            self.spoiled(pod)

    def spoiled(self, pod: Pod) -> None:
        """Count a pod as lost that others have given an earlier attempt: it is deleted as an old one."""
        found = self._job_of(_owner_of(pod))
        if found and _may_count(*found):
            self._lost.add(found[0], pod.name)

    def stored(self, uid: str) -> None:
        """Record that this process has stored the status of a job; what was forgotten meanwhile is looked up first."""
        if uid not in self._incomplete:
            self._counted.add(uid)

    def looks_up(self, snapshot: Snapshot) -> None:
        """Record that the missing pods of a job are now looked up."""
        self._incomplete.discard(snapshot.job.uid)

    def changed(self, job: Job, status: Status) -> None:
        """Forget the pods of a job that needs them no longer."""
        if not _may_count(job, status):
            self._unwatched.forget((job.namespace, job.uid))
        if job.policy.managed_elsewhere:
            self._counted.discard(job.uid)

    def forget(self, owner: Owner) -> None:
        """Forget a job that is gone."""
        self._unwatched.forget(owner)
        self._lost.forget(owner)
        self._counted.discard(owner[1])
        self._incomplete.discard(owner[1])

    def forget_lost_pods(self) -> None:
        """Forget which pods were lost while another replica led, as it is not known when, and whose counts they are."""
        self._lost.clear()
        self._counted.clear()

    def _remember(self, pod: Pod, owner: Owner) -> None:
        found = self._job_of(owner)
        forgotten = self._unwatched.left(found[0], pod) if found and _may_count(*found) else None
        if forgotten:
            self._counted.discard(forgotten[1])
            self._incomplete.add(forgotten[1])


def _owner_of(pod: Pod) -> Owner:
    return pod.namespace, pod.owner


def _may_count(job: Job, status: Status) -> bool:
    """Return whether a rule may ask for pods of the job that have left the watch: to count, or to delete them."""
    if job.deleting or job.policy.managed_elsewhere:
        return False
    if not status.over or job.in_queue or job.policy.clean_pods is not CleanPodPolicy.NONE:
        return True
    return bool(status.limit_exceeded or status.ending)

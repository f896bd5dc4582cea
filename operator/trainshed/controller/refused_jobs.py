"""Which jobs are tried again when there may be room for the pods that the API server has refused them."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

import msgspec

from trainshed.api.job import JobKey

#: Seconds between two tries that changes of a namespace cause, the next ones after a change that was of no use being
#: twice, four times … as late, and how many of them one change causes: the quota is counted a little later.
PACE, TRIES = 1.0, 5
#: Jobs that are tried as soon as one has got its pods: so of many those that have room get theirs soon.
NEXT = 2

#: Jobs to try, and after how many seconds.
Tries = tuple[tuple[JobKey, ...], float]
NONE: Tries = ((), 0.0)


class _Namespace(msgspec.Struct):
    """The refused jobs of a namespace, the one to be tried next first.

    `left` tries follow after the last change, the next one of them `pause` after another. `tried` and `last` are the
    jobs and the time of the last try, which may still be to come, and `unanswered` those of which nothing is known yet.
    """

    waiting: OrderedDict[JobKey, None] = msgspec.field(default_factory=OrderedDict)
    left: int = 0
    pause: float = PACE
    tried: tuple[JobKey, ...] = ()
    last: float = float("-inf")
    unanswered: set[JobKey] = msgspec.field(default_factory=set)

    def next(self, number: int, now: float, seconds: float) -> Tries:
        """Return the next jobs to try, which are the last ones then."""
        self.tried, self.last = tuple(islice(self.waiting, number)), now + seconds
        self.unanswered.update(self.tried)
        for key in self.tried:
            self.waiting.move_to_end(key)
        return self.tried, seconds


class RefusedJobs:
    """The jobs that wait for room in their namespaces, as a quota refuses their pods.

    Each is tried by itself after a long back-off. When a pod of the namespace has ended or is gone there may be room
    for one: then the job that was tried least recently is tried at once, and others after it while they are refused as
    well. A namespace has one such try in PACE seconds at most, however many pods end. Once one of them has
    its pods the next ones are tried at once. Times are in seconds of a clock that is never set back.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}

    def clear(self) -> None:
        """Forget all jobs."""
        self._namespaces.clear()

    def refused(self, key: JobKey, now: float, *, progressed: bool) -> Tries:
        """Remember a job whose pods are refused; return what to try next, because of a change before.

        One that has `progressed`, as some of its pods were accepted, is tried first: others must not take the rest.
        """
        found = self._namespaces.setdefault(key.namespace, _Namespace())
        found.waiting.setdefault(key)
        found.unanswered.discard(key)
        if progressed:
            found.waiting.move_to_end(key, last=False)
        if not found.left or found.last > now:
            return NONE
        found.left -= 1
        pause, found.pause = found.pause, 2 * found.pause
        return found.next(1, now, pause)

    def freed(self, namespace: str, now: float) -> Tries:
        """Return what to try after a pod of a namespace has ended or is gone."""
        found = self._namespaces.get(namespace)
        if found is None:
            return NONE
        found.left, found.pause = TRIES - 1, PACE
        if found.last <= now:
            return found.next(1, now, max(0.0, found.last + PACE - now))
        found.last = min(found.last, now + PACE)
        return found.tried, found.last - now

    def forget(self, key: JobKey, now: float) -> Tries:
        """Forget a job that has its pods, or needs none; return what to try next."""
        found = self._namespaces.get(key.namespace)
        if found is None or key not in found.waiting:
            return NONE
        was_tried = key in found.unanswered
        del found.waiting[key]
        found.unanswered.discard(key)
        if not found.waiting:
            del self._namespaces[key.namespace]
            return NONE
        if not was_tried:  # users can suspend jobs, or delete them, as often as they like
            return self.freed(key.namespace, now)
        found.left, found.pause = TRIES - 1, PACE
        return found.next(NEXT, now, 0.0)

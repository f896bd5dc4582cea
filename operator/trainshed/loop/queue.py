"""Whose turn it is: each job once, one worker at a job, namespaces in turn, and those who failed a little later."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from .view import Key

#: Seconds between two looks at the same job, so that a storm of events costs few looks.
PAUSE = 0.02
#: Seconds that a timer may be early.
INSTANT = 0.001
#: The part of a back-off after a conflict in which no event ends it. In the rest one does: just after an event of the
#: job its latest version is known, and a write has the best chance to succeed.
MIN_WAIT = 0.8


class Queue:
    """`ready` wait for a worker, `held` are with one, `again` were asked for meanwhile, `later` have a timer.

    A job that somebody else writes as well is `not_before` a time to be looked at.

    `waited` is told how many seconds each has been ready.
    """

    def __init__(self, waited: Callable[[float], None]) -> None:
        self._waited = waited
        self._ready: OrderedDict[str, deque[Key]] = OrderedDict()
        self._since: dict[Key, float] = {}
        self._held: set[Key] = set()
        self._again: set[Key] = set()
        self._later: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._since)

    def add(self, key: Key) -> None:
        """The job may have something new."""
        if key in self._held:
            self._again.add(key)
        elif (seconds := self._not_before.get(key, 0.0) - _clock()) > INSTANT:
            self.add_later(key, seconds)
        elif key not in self._since:
            self._since[key] = _clock()
            self._ready.setdefault(key.namespace, deque()).append(key)
            self._some.set()

    def add_later(self, key: Key, seconds: float) -> None:
        """Look at the job in so many seconds; of several times the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        known = self._later.get(key)
        if known and known.when() <= _clock() + seconds:
            return
        if known:
            known.cancel()
        self._later[key] = asyncio.get_running_loop().call_later(seconds, self._due, key)

    async def take(self) -> Key:
        """The next job whose turn it is; nobody else gets it before `done`.

        Its timer is cancelled: each look says when the next one is due, and that of a finished or deleted job does not.
        """
        while not self._ready:
            self._some.clear()
            await self._some.wait()
        namespace, keys = self._ready.popitem(last=False)
        key = keys.popleft()
        if keys:
            self._ready[namespace] = keys
        self._waited(_clock() - self._since.pop(key))
        self._held.add(key)
        if timer := self._later.pop(key, None):
            timer.cancel()
        return key

    def done(self, key: Key) -> None:
        """The look is over. What was asked for meanwhile follows after a short pause."""
        asyncio.get_running_loop().call_later(PAUSE, self._release, key)

    def failed(self, key: Key, first: float, longest: float) -> float:
        """Look again after so many seconds, `first` to begin with and doubled with each failure; returns how many."""
        failures = self._failures.get(key, 0)
        seconds = min(first * float(1 << failures), longest)
        self._failures[key] = min(failures + 1, 30)
        self.add_later(key, seconds)
        return seconds

    def conflicted(self, key: Key, first: float, longest: float) -> float:
        """The same, and events make it little sooner: the job's are what somebody else writes all the time."""
        seconds = self.failed(key, first, longest)
        self._not_before[key] = _clock() + seconds * MIN_WAIT
        return seconds

    def went_well(self, key: Key) -> None:
        """The next failure is the first again."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def clear(self) -> None:
        """Forget all jobs that no worker has, with their timers and failures."""
        for timer in self._later.values():
            timer.cancel()
        for known in (self._later, self._ready, self._since, self._failures, self._not_before):
            known.clear()

    def _release(self, key: Key) -> None:
        self._held.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _due(self, key: Key) -> None:
        self._later.pop(key, None)
        self.add(key)


def _clock() -> float:
    return asyncio.get_running_loop().time()

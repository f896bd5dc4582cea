"""The work queue: each key at most once, one worker per key, namespaces in turn, and back-off after failures."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from .view import Key

#: Seconds between two reconciles of the same job, so that many events cost few reconciles.
PAUSE = 0.02
#: Seconds by which a timer may fire early.
INSTANT = 0.001
#: The part of a back-off after a conflict during which no event ends it. In the rest an event does: just after an event
#: the cache has the latest version of the job, so a write is most likely to succeed.
MIN_WAIT = 0.8


class Queue:
    """The work queue; a key is in at most one of `ready` and `held`.

    `ready` keys wait for a worker, `held` ones are being processed, `again` were added meanwhile, and `later` have a
    timer. A job that another client writes as well has a `not_before` time. `waited` is called with the seconds that
    each key has been ready.
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
        """Enqueue a job that may have changed."""
        if key in self._held:
            self._again.add(key)
        elif (seconds := self._not_before.get(key, 0.0) - _clock()) > INSTANT:
            self.add_later(key, seconds)
        elif key not in self._since:
            self._since[key] = _clock()
            self._ready.setdefault(key.namespace, deque()).append(key)
            self._some.set()

    def add_later(self, key: Key, seconds: float) -> None:
        """Enqueue the job after this many seconds; the earliest of several calls wins."""
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
        """Return the next key when there is one; no other call returns it before `done`.

        Its timer is cancelled: each reconcile returns its next due time, and a finished or deleted job has none.
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
        """Mark a key as processed. If it was added meanwhile, it is enqueued again after a short delay."""
        asyncio.get_running_loop().call_later(PAUSE, self._release, key)

    def failed(self, key: Key, first: float, longest: float) -> float:
        """Enqueue the job after a back-off that starts at `first` and doubles up to `longest`; return the seconds."""
        failures = self._failures.get(key, 0)
        seconds = min(first * float(1 << failures), longest)
        self._failures[key] = min(failures + 1, 30)
        self.add_later(key, seconds)
        return seconds

    def conflicted(self, key: Key, first: float, longest: float) -> float:
        """Do the same as `failed`, but let an event shorten the back-off only a little.

        After a conflict another client may be writing the job all the time, so its events come all the time.
        """
        seconds = self.failed(key, first, longest)
        self._not_before[key] = _clock() + seconds * MIN_WAIT
        return seconds

    def went_well(self, key: Key) -> None:
        """Reset the back-off."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def clear(self) -> None:
        """Forget all keys that are not being processed, with their timers and back-off."""
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

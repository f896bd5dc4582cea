"""The time for which reconciles keep the event loop, and the part of it that those of one namespace may have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, TypeVar

from trainshed.api.job import JobKey

T = TypeVar("T")
V = TypeVar("V")
#: A reconcile that keeps the event loop no longer than this many seconds is not counted; most jobs need less.
SHORT = 0.002
#: Seconds of each step of a task of a reconcile that are not counted: most writes need less in all. How many there are
#: at a time is bounded by the limiters, which serve the namespaces in turn.
STEP = 0.0005
#: The part of the time that the other reconciles of one namespace may take in the long run, and the seconds that they
#: may take at once.
SHARE, BURST = 0.2, 0.25
#: The pause after a reconcile beyond the share, as a part of the time that it took, and the shortest one in seconds:
#: what has arrived meanwhile is read, and so is known before the next one. It is longer after one of more than LONG
#: seconds, so that lags of the event loop do not add up to what the liveness probe takes for a loop that hangs.
PAUSE, SHORTEST_PAUSE, LONG, LONG_PAUSE = 0.1, 0.002, 0.1, 3.0
#: Seconds by which a timer may fire early.
INSTANT = 0.001


class LoopTime:
    """How much of the event loop each namespace has used, as the time at which it would have with its SHARE alone.

    The namespace that was counted last stands last. Time that no other namespace wanted is not counted: one that has
    used it has its SHARE as soon as others come.
    """

    def __init__(self) -> None:
        self._reached: dict[str, float] = {}
        #: The reconciles beyond the share that have not ended, and until when no other one begins.
        self._spare: set[JobKey] = set()
        self._paused_until = 0.0

    def __len__(self) -> int:
        return len(self._reached)

    def next(self, namespaces: Iterable[str], *, busy: bool) -> str | None:
        """Return the first of these namespaces that has time left, or else, unless others are `busy`, the first one."""
        first: str | None = None
        for namespace in namespaces:
            if self.wait(namespace) <= INSTANT:
                return namespace
            first = first or namespace
        return None if busy or self._paused_until - _clock() > INSTANT else first

    def began(self, key: JobKey) -> None:
        """Note that the reconcile of a job begins: if its namespace has no time left, in time that no other wants."""
        if self.wait(key.namespace) > INSTANT:
            self._spare.add(key)

    def count(self, key: JobKey, seconds: float) -> float:
        """Count a reconcile that has ended; return after how many seconds another one may begin, 0 if at once."""
        if key in self._spare:
            self._spare.remove(key)
            pause = max((PAUSE if seconds <= LONG else LONG_PAUSE) * seconds, SHORTEST_PAUSE)
            self._paused_until = _clock() + pause
            return pause
        namespace, now = key.namespace, _clock()
        for known in list(self._reached)[:2]:  # so that namespaces that are gone are forgotten
            if self._reached[known] <= now:
                del self._reached[known]
        if seconds > SHORT:
            self._reached[namespace] = max(self._reached.pop(namespace, now), now) + (seconds - SHORT) / SHARE
        return self.wait(namespace)

    def wait(self, namespace: str) -> float:
        """Return the seconds for which a namespace has to wait, 0 if the next of its jobs may be reconciled."""
        return max(0.0, self._reached.get(namespace, 0.0) - _clock() - BURST / SHARE)


class Timed(Generic[T]):
    """A coroutine, to be awaited once, and for how long it has kept the event loop so far.

    Its tasks that are started with `task` count for it: it is their `account`. Time in which the thread did not run is
    not counted: the machine may be busy, or the process stopped.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], account: Timed[Any] | None = None) -> None:
        self._coroutine = coroutine
        self._account = account
        self._own = 0.0
        #: What the tasks needed by the clock of the event loop, which may tick in milliseconds, and of the thread.
        self._elapsed = self._processor = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of the coroutine itself, and those of its tasks."""
        return self._own + min(self._elapsed, self._processor)

    def __await__(self) -> Generator[Any, Any, T]:
        # A generator, as each write takes several steps: the methods of an iterator took a third more.
        clock, thread_time = asyncio.get_running_loop().time, time.thread_time
        run, value = self._coroutine.send, None
        while True:
            began, ran = clock(), thread_time()
            try:
                waits_for = run(value)
            except StopIteration as end:
                found: T = end.value
                return found
            finally:  # most steps take less than a tick of the event loop's clock, which in a simulation stands still
                elapsed = clock() - began
                if elapsed > 0:
                    self._count(elapsed, thread_time() - ran)
            try:
                run, value = self._coroutine.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine
                run, value = self._coroutine.throw, error

    async def task(self, call: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Await `call` in a task whose time counts for this one."""
        return await Timed(call(), self)

    def _count(self, elapsed: float, processor: float) -> None:
        account = self._account
        if account is None:
            self._own += min(elapsed, processor)
        elif processor > STEP:
            account._elapsed += elapsed  # noqa: SLF001 - of the same class
            account._processor += processor - STEP  # noqa: SLF001


def _clock() -> float:
    return asyncio.get_running_loop().time()

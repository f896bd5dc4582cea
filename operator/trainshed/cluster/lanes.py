"""Bounds on requests in flight: as many as the server bears, half as many when it groans, and slowly more again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from . import ClusterError, Denied, Invalid, NameTaken, Throttled

T = TypeVar("T")
#: Seconds: an answer that took so long says that the server has too much to do.
SLOW = 2.0
#: Errors that the next request of the same kind would meet as well.
DEFINITE = (Denied, Invalid, NameTaken)


class Pace:
    """At most `rate` requests a second after a burst, for whoever wants client-go's limits; a rate of 0 is no limit."""

    def __init__(self, rate: float = 0, burst: int = 1) -> None:
        self._gap = 1 / rate if rate else 0.0
        self._slack = self._gap * (burst - 1)
        self._next = 0.0

    async def wait(self) -> None:
        """Return when it is this request's turn."""
        if not self._gap:
            return
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now - self._slack)
        self._next = turn + self._gap
        if turn > now:
            await asyncio.sleep(turn - now)


class Lane:
    """So many requests at once: half as many after a 429 or a slow answer, and one more after a width of good ones."""

    def __init__(self, width: int, pace: Pace) -> None:
        self._widest = width
        self._width = float(width)
        self._under_way = 0
        self._left = asyncio.Condition()
        self._pace = pace

    @property
    def width(self) -> int:
        """How many requests may be under way just now."""
        return max(1, int(self._width))

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, once there is room for it; its errors are passed on."""
        async with self._left:
            await self._left.wait_for(lambda: self._under_way < self.width)
            self._under_way += 1
        clock = asyncio.get_running_loop().time
        try:
            await self._pace.wait()
            began = clock()
            result = await call()
        except Throttled:
            self._learn(groaned=True)
            raise
        else:
            self._learn(groaned=clock() - began > SLOW)
            return result
        finally:
            async with self._left:
                self._under_way -= 1
                self._left.notify_all()

    def _learn(self, *, groaned: bool) -> None:
        wider = self._width / 2 if groaned else self._width + 1 / self._width
        self._width = min(max(wider, 1.0), float(self._widest))


async def carefully(tasks: Sequence[Callable[[], Awaitable[None]]], width: int = 32) -> list[ClusterError]:
    """Run tasks, the first alone and the others `width` at a time; a definite no keeps those not yet begun from it.

    A bad template or a full quota then costs one request, or as many as are under way: not one for each pod.
    """
    errors: list[ClusterError] = []
    waiting = iter(tasks)

    async def work(most: int) -> None:
        for _, task in zip(range(most), waiting):  # noqa: B905 - the workers share what is left
            try:
                await task()
            except ClusterError as error:
                errors.append(error)
            if any(isinstance(error, DEFINITE) for error in errors):
                return

    await work(1)
    if not errors:
        await asyncio.gather(*(work(len(tasks)) for _ in range(min(width, len(tasks) - 1))))
    return errors

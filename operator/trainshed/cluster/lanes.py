"""Bounds on requests in flight: as many as the server bears, half as many when it groans, and slowly more again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import TypeVar

from . import ClusterError, Denied, Invalid, NameTaken, NotLeading, Throttled, Unavailable

T = TypeVar("T")
#: Requests in flight: 16 to 32 is what an API server on two cores makes good use of; more only waits there.
CREATES, DELETES, STATUSES, EVENTS = 32, 32, 16, 4
#: Seconds: an answer that took so long says that the server has too much to do.
SLOW = 2.0
#: How much of a lane may be one namespace's, and for how many seconds after its last answer a smaller share is kept.
LARGEST_SHARE, KEPT = 0.75, 300.0
#: So often a request is sent whose outcome is unknown, with so many seconds between, doubled each time.
TRIES, PAUSE = 3, 0.2
#: Errors that the next request of the same kind would meet as well.
DEFINITE = (Denied, Invalid, NameTaken, NotLeading)


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
    """So many requests at once: half as many after a 429, and one more after a width of good answers.

    Who waits stands in the line of whoever it is for, a namespace as a rule, and the lines are served in turn: a
    thousand jobs of one namespace make no other wait for all of them. None may fill the lane, and one whose answers
    are slow, as a webhook of its own may make them, is halved for itself: others find room at once.
    """

    def __init__(self, width: int, pace: Pace) -> None:
        self._widest = width
        self._width = float(width)
        self._shares: dict[str, tuple[float, float]] = {}
        self._under_way: Counter[str] = Counter()
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._pace = pace
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return sum(len(line) for line in self._lines.values())

    @property
    def width(self) -> int:
        """How many requests may be under way just now."""
        return max(1, int(self._width))

    def share(self, whose: str) -> int:
        """How many of these may be one's."""
        share, _ = self._shares.get(whose, (self._widest, 0.0))
        return max(1, int(min(self.width * LARGEST_SHARE, share)))

    async def run(self, whose: str, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, once there is room for it; its errors are passed on."""
        await self._enter(whose)
        clock = asyncio.get_running_loop().time
        try:
            await self._pace.wait()
            if self._closed:
                raise _closed()
            began = clock()
            result = await call()
        except Throttled:
            self._width = max(self._width / 2, 1.0)
            raise
        else:
            self._learn(whose, clock(), slow=clock() - began > SLOW)
            return result
        finally:
            self._leave(whose)

    def close(self) -> None:
        """Let nobody in any more: who waits, and who comes, gets `NotLeading`; who is in may go on."""
        self._closed = True
        for line in self._lines.values():
            for turn in line:
                if not turn.done():
                    turn.set_exception(_closed())
        self._lines.clear()

    async def _enter(self, whose: str) -> None:
        if self._closed:
            raise _closed()
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(whose, deque()).append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # it was let in, and broken off before it knew
                self._leave(whose)
            raise

    def _leave(self, whose: str) -> None:
        self._under_way[whose] -= 1
        if not self._under_way[whose]:
            del self._under_way[whose]
        self._admit()

    def _admit(self) -> None:
        while (whose := self._next()) is not None:
            line = self._lines.pop(whose)
            turn = line.popleft()
            if line:
                self._lines[whose] = line
            if not turn.cancelled():
                turn.set_result(None)
                self._under_way[whose] += 1

    def _next(self) -> str | None:
        if self._under_way.total() >= self.width:
            return None
        return next((whose for whose in self._lines if self._under_way[whose] < self.share(whose)), None)

    def _learn(self, whose: str, now: float, *, slow: bool) -> None:
        self._width = min(self._width + 1 / self._width, float(self._widest))
        share, _ = self._shares.pop(whose, (float(self._widest), 0.0))
        share = max(share / 2, 1.0) if slow else share + 1 / share
        if share < self._widest:
            self._shares[whose] = share, now
        for old in [*takewhile(lambda one: self._shares[one][1] < now - KEPT, self._shares)]:
            del self._shares[old]


class Lanes:
    """One for each sort of write, so that none waits for another."""

    def __init__(self, pace: Pace) -> None:
        self.creates, self.deletes = Lane(CREATES, pace), Lane(DELETES, pace)
        self.statuses, self.events = Lane(STATUSES, pace), Lane(EVENTS, pace)

    def close(self) -> None:
        """From now on only Events are written; what is under way is carried out."""
        for lane in (self.creates, self.deletes, self.statuses):
            lane.close()

    def waiting(self) -> dict[str, int]:
        """How many writes wait for room, by what is written."""
        lanes = {"creates": self.creates, "deletes": self.deletes, "statuses": self.statuses, "events": self.events}
        return {name: lane.waiting for name, lane in lanes.items()}


def _closed() -> NotLeading:
    return NotLeading("not sent: the operator is about to end")


async def carefully(tasks: Sequence[Callable[[], Awaitable[None]]], width: int = 32) -> list[ClusterError]:
    """Run tasks, the first alone and the others `width` at a time; a definite no keeps those not yet begun from it.

    A bad template or a full quota then costs one request, or as many as are under way: not one for each pod. That the
    first one's name is taken is its own misfortune: the names of others may be free.
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
    if all(isinstance(error, NameTaken) for error in errors):
        await asyncio.gather(*(work(len(tasks)) for _ in range(min(width, len(tasks) - 1))))
    return errors


async def persistently(call: Callable[[], Awaitable[T]]) -> T:
    """Try a few times, as long as the outcome is unknown or a pause is asked for."""
    for tried in range(1, TRIES):
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(PAUSE * 2**tried * random.uniform(0.5, 1.0))  # noqa: S311 - only to spread tries
        except Throttled as error:
            await asyncio.sleep(error.wait * random.uniform(1.0, 1.5))  # noqa: S311 - only to spread tries
    return await call()

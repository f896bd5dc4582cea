"""Limits requests in flight and per second, starts slowly, and retries."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import count, takewhile
from typing import Any, TypeVar

from trainshed.client import ApiError, Forbidden, Invalid, NameConflict, NotLeader, TooManyRequests, Unavailable

T = TypeVar("T")
#: Requests in flight: an API server on two cores makes use of 16 to 32; more would only wait there.
CREATES, DELETES, STATUSES, EVENTS, READS = 32, 32, 16, 4, 16
#: Seconds after which a response counts as slow, a sign of overload.
SLOW = 2.0
#: The largest share of a limiter for one namespace; a smaller one is reset after these seconds without a response.
LARGEST_SHARE, KEPT = 0.75, 300.0
#: The tries of a request whose outcome is unknown, and the first delay between them in seconds, doubled each time.
TRIES, RETRY_DELAY = 3, 0.2
#: Errors that the next request of the same kind would get as well.
DEFINITE = (Forbidden, Invalid, NameConflict, NotLeader)
#: The number of the running reconcile, in the order in which reconciles started. Of the waiting requests of a flow,
#: those of the earliest reconcile are admitted first, so that a job gets all its pods before the next job gets any.
RECONCILE_NUMBER: ContextVar[int] = ContextVar("reconcile_number", default=0)


class TokenBucket:
    """A rate limiter like client-go's: `rate` requests per second after a burst of `burst`; a rate of 0 is no limit."""

    def __init__(self, rate: float = 0, burst: int = 1) -> None:
        self.limits = rate > 0
        self._gap = 1 / rate if rate else 0.0
        self._slack = self._gap * (burst - 1)
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the next request may be sent."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now - self._slack)
        self._next = turn + self._gap
        if turn > now:
            await asyncio.sleep(turn - now)


class Limiter:
    """Limits concurrent requests: `width` is halved after a 429, and grows by one after `width` successful responses.

    A 429 of an admission webhook says nothing about the server, and counts as a slow response of its flow.

    Waiting requests are queued by flow, as a rule one per namespace, and the queues are served in turn: a thousand
    jobs of one namespace do not delay the others. Within a queue the request with the lowest RECONCILE_NUMBER is
    next. No flow may use the whole width. The share of a flow with slow responses or errors, as a webhook of its
    namespace may cause them, is halved, so that other flows are admitted at once. A request that has no response for
    SLOW seconds takes no room from flows whose last response was not slow, and the others together may not use the
    whole width: there may be more namespaces with a webhook that does not answer than that.
    """

    def __init__(self, width: int, token_bucket: TokenBucket) -> None:
        self._widest = float(width)
        self._resize(width)
        #: The share of a flow, when it was learned, and whether its last response was slow.
        self._shares: dict[str, tuple[float, float, bool]] = {}
        self._under_way: dict[str, int] = {}
        self._total = self._overdue = 0
        self._queues: OrderedDict[str, list[tuple[int, int, asyncio.Future[None]]]] = OrderedDict()
        self._arrivals = count()
        self._token_bucket = token_bucket
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(len(queue) for queue in self._queues.values())

    def share(self, flow: str) -> int:
        """Return the number of requests in flight that a flow may have."""
        if flow not in self._shares:
            return self._largest_share
        share, _, _ = self._shares[flow]
        return max(1, min(self._largest_share, int(share)))

    async def run(self, flow: str, call: Callable[[], Awaitable[T]]) -> T:
        """Await `call` as soon as the limiter admits it, and return its result; its errors are passed on.

        Raises `NotLeader` if the limiter is closed.
        """
        if self._queues or self._closed or not self._has_room(flow):
            await self._wait_for_turn(flow)
        else:
            self._count(flow)
        try:
            if self._token_bucket.limits:
                await self._token_bucket.wait()
            if self._closed:
                raise _shutting_down()
            return await self._observed(flow, call)
        finally:
            self._leave(flow)

    async def _observed(self, flow: str, call: Callable[[], Awaitable[T]]) -> T:
        """Await `call`, and learn from how it ends, or that it does not soon. A quick error says nothing."""
        loop, is_slow = asyncio.get_running_loop(), False

        def on_slow() -> None:
            nonlocal is_slow
            is_slow = True
            self._overdue += 1
            self._learn_share(flow, loop.time(), slow=True)
            self._admit()

        timer = loop.call_later(SLOW, on_slow)
        try:
            result = await call()
        except TooManyRequests as error:
            if not error.from_webhook:
                self._resize(max(self._width / 2, 1.0))
            elif not is_slow:
                self._learn_share(flow, loop.time(), slow=True)
            raise
        finally:
            timer.cancel()
            self._overdue -= is_slow
        if self._width < self._widest:
            self._resize(min(self._width + 1 / self._width, self._widest))
        if not is_slow:
            self._learn_share(flow, loop.time(), slow=False)
        return result

    def close(self) -> None:
        """Admit no more requests: waiting and new ones raise `NotLeader`; those in flight continue."""
        self._closed = True
        for queue in self._queues.values():
            for _, _, turn in queue:
                if not turn.done():
                    turn.set_exception(_shutting_down())
        self._queues.clear()

    async def _wait_for_turn(self, flow: str) -> None:
        if self._closed:
            raise _shutting_down()
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queues.setdefault(flow, []), (RECONCILE_NUMBER.get(), next(self._arrivals), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # it was admitted, and cancelled before it could run
                self._leave(flow)
            raise

    def _leave(self, flow: str) -> None:
        self._total -= 1
        self._under_way[flow] -= 1
        if not self._under_way[flow]:
            del self._under_way[flow]
        if self._queues:
            self._admit()

    def _admit(self) -> None:
        while (flow := self._next()) is not None:
            queue = self._queues.pop(flow)
            _, _, turn = heapq.heappop(queue)
            if queue:
                self._queues[flow] = queue
            if not turn.cancelled():
                turn.set_result(None)
                self._count(flow)

    def _next(self) -> str | None:
        if self._total - self._overdue < self.width:
            for flow in self._queues:
                if self._has_room(flow):
                    return flow
        return None

    def _has_room(self, flow: str) -> bool:
        if flow in self._shares and self._shares[flow][2]:
            is_free = self._total < self._largest_share
        else:
            is_free = self._total - self._overdue < self.width
        return is_free and self._under_way.get(flow, 0) < self.share(flow)

    def _count(self, flow: str) -> None:
        self._total += 1
        self._under_way[flow] = self._under_way.get(flow, 0) + 1

    def _resize(self, width: float) -> None:
        self._width = width
        #: The number of requests that may be in flight now.
        self.width = max(1, int(width))
        self._largest_share = max(1, int(self.width * LARGEST_SHARE))

    def _learn_share(self, flow: str, now: float, *, slow: bool) -> None:
        if not (slow or self._shares):
            return
        share, _, _ = self._shares.pop(flow, (self._widest, 0.0, False))
        share = max(share / 2, 1.0) if slow else share + 1 / share
        if slow or share < self._widest:
            self._shares[flow] = share, now, slow
        for old in [*takewhile(lambda one: self._shares[one][1] < now - KEPT, self._shares)]:
            del self._shares[old]


class Limiters:
    """One limiter for reads and one for each kind of write, so that none waits for another."""

    def __init__(self, token_bucket: TokenBucket) -> None:
        self.creates, self.deletes = Limiter(CREATES, token_bucket), Limiter(DELETES, token_bucket)
        self.statuses, self.events = Limiter(STATUSES, token_bucket), Limiter(EVENTS, token_bucket)
        self.reads = Limiter(READS, TokenBucket())

    def close(self) -> None:
        """Admit only writes of Events from now on; writes in flight continue."""
        for limiter in (self.creates, self.deletes, self.statuses):
            limiter.close()

    def waiting(self) -> dict[str, int]:
        """Return the number of waiting writes of each limiter."""
        limiters = {"creates": self.creates, "deletes": self.deletes, "statuses": self.statuses, "events": self.events}
        return {name: limiter.waiting for name, limiter in limiters.items()}


def _shutting_down() -> NotLeader:
    return NotLeader("not sent: the operator is shutting down")


async def run_with_slow_start(
    tasks: Sequence[Callable[[], Awaitable[None]]], width: int = 32, *, proceed: Awaitable[bool] | None = None
) -> list[ApiError]:
    """Run tasks, the first alone and the others `width` at a time; a definite error stops the tasks not yet started.

    A bad template or an exhausted quota then costs only one request, or those in flight, instead of one for each pod.
    If only the first task's name is taken, the others run: their names may be free. If `proceed` has the result
    False, only the first task runs. Return the errors.
    """
    errors: list[ApiError] = []
    remaining = iter(tasks)

    async def work(most: int) -> None:
        for _, task in zip(range(most), remaining):  # noqa: B905 - the workers share the iterator
            try:
                await task()
            except ApiError as error:
                errors.append(error)
            if errors and any(isinstance(error, DEFINITE) for error in errors):
                return

    await work(1)
    if proceed is not None and not await proceed:
        return errors
    if len(tasks) > 1 and (not errors or isinstance(errors[0], NameConflict)):
        await run_concurrently([partial(work, len(tasks))] * min(width, len(tasks) - 1))
    return errors


async def run_concurrently(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Await all `calls`, at least one, and return their results.

    If one fails, the others are cancelled; if one is cancelled, so is the caller. The first runs in the caller's task,
    because each further task takes about 30,000 instructions.
    """
    first, *others = calls
    if not others:
        return [await first()]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call()) for call in others]
        result = await first()
    return [result, *(task.result() for task in tasks)]


async def retry(call: Callable[[], Awaitable[T]]) -> T:
    """Await `call`, and retry it a few times while the outcome is unknown or the server throttles."""
    for tried in range(1, TRIES):
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(RETRY_DELAY * 2**tried * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        except TooManyRequests as error:
            await asyncio.sleep(error.wait * random.uniform(1.0, 1.5))  # noqa: S311 - jitter
    return await call()

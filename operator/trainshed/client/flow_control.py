"""Limits requests in flight and per second, starts slowly, and retries."""

from __future__ import annotations

import asyncio
import heapq
import operator
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from itertools import chain, count, filterfalse, takewhile
from typing import Any, TypeAlias, TypeVar

import msgspec

from trainshed.client import ApiError, Forbidden, Invalid, NameConflict, NotLeader, TooManyRequests, Unavailable

from .withdrawal import is_withdrawn, next_turn, unless_withdrawn

T = TypeVar("T")
#: The waiting requests of each flow, by the order of reconciles and of their arrival.
Queues: TypeAlias = "OrderedDict[str, list[tuple[int, int, asyncio.Future[_Place]]]]"
#: Requests in flight: an API server on two cores makes use of 16 to 32; more would only wait there.
CREATES, DELETES, STATUSES, EVENTS, CONFIG_MAPS, READS, LISTS = 32, 32, 16, 4, 4, 16, 8
#: Seconds after which a response counts as slow, a sign of overload.
SLOW = 2.0
#: The largest number of slow requests that take no room: each is a connection, and one more that the server has open.
MAX_ASIDE = 128
#: Seconds by which a timer may fire early.
INSTANT = 0.001
#: The largest share of a limiter for one namespace; a smaller one is reset after these seconds without a response.
LARGEST_SHARE, KEPT = 0.75, 300.0
#: The tries of a request whose outcome is unknown, and the first delay between them in seconds, doubled each time.
TRIES, RETRY_DELAY = 3, 0.2
#: Errors that the next request of the same kind would get as well.
DEFINITE = (Forbidden, Invalid, NameConflict, NotLeader)
#: The number of the running reconcile, in the order in which reconciles started. Of the waiting requests of a flow,
#: those of the earliest reconcile are admitted first, so that a job gets all its pods before the next job gets any.
RECONCILE_NUMBER: ContextVar[int] = ContextVar("reconcile_number", default=0)
#: Makes the coroutine of each task that is started from a call, so that the time counts that it needs.
TASK_WRAPPER: ContextVar[Callable[[Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]]] = ContextVar(
    "task_wrapper"
)


class TokenBucket:
    """A rate limiter like client-go's: `rate` requests per second after a burst of `burst`; a rate of 0 is no limit."""

    def __init__(self, rate: float = 0, burst: int = 1) -> None:
        self.limits = rate > 0
        self._gap = 1 / rate if rate else 0.0
        self._slack = self._gap * (burst - 1)
        self._next, self._first = 0.0, asyncio.Lock()

    async def wait(self) -> None:
        """Wait until the next request may be sent, in the order of calls. One that is withdrawn uses up nothing."""
        async with self._first:
            now = asyncio.get_running_loop().time()
            turn = max(self._next, now - self._slack)
            if turn > now:
                await asyncio.sleep(turn - now)
            self._next = turn + self._gap


class _Place(msgspec.Struct, eq=False):
    """A request in flight. One that is `aside` takes no room from flows whose last response was not slow."""

    flow: str
    aside: bool
    began: float = 0.0


class Limiter:
    """Limits concurrent requests: `width` is halved after a 429, and grows by one after `width` successful responses.

    A 429 of an admission webhook says nothing about the server, and counts as a slow response of its flow.

    Waiting requests are queued by flow, as a rule one per namespace, and the queues are served in turn: a thousand
    jobs of one namespace do not delay the others. Within a queue the request with the lowest RECONCILE_NUMBER is
    next. No flow may use the whole width. The share of a flow with slow responses or errors, as a webhook of its
    namespace may cause them, is halved, so that other flows are admitted at once.

    There may be more namespaces with a webhook that does not answer than the width. So flows whose last response was
    slow are admitted beside the width, together to half as many requests; the ones with a single slow response come
    first, as the others never have a quick one. A request of another flow that has no response for SLOW seconds takes
    no room any more. Until then many flows that become slow at once hold up the others. So one request in flight is,
    out of turn, of the flow that has begun to wait last: a new one waits for SLOW seconds, not for all of these.
    """

    def __init__(self, width: int, token_bucket: TokenBucket) -> None:
        self._widest = float(width)
        self._resize(width)
        #: The share of a flow, when it was learned, and how many of its last responses were slow.
        self._shares: dict[str, tuple[float, float, int]] = {}
        self._under_way: dict[str, int] = {}
        self._total = self._aside = 0
        #: The requests that may be slow yet, in the order in which they were sent.
        self._young: dict[_Place, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        #: The queues of flows that are not slow, that were once, and that were more often in a row.
        self._rings: tuple[Queues, Queues, Queues] = OrderedDict(), OrderedDict(), OrderedDict()
        #: The flows in the first ring, in the order in which they began to wait, and the request that is out of turn.
        self._since: dict[str, None] = {}
        self._out_of_turn: _Place | None = None
        self._arrivals = count()
        self._token_bucket = token_bucket
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(len(queue) for ring in self._rings for queue in ring.values())

    @property
    def is_busy(self) -> bool:
        """Whether requests wait of flows that are not slow."""
        return bool(self._rings[0])

    def share(self, flow: str) -> int:
        """Return the number of requests in flight that a flow may have."""
        if flow not in self._shares:
            return self._largest_share
        return max(1, min(self._largest_share, int(self._shares[flow][0])))

    async def run(self, flow: str, call: Callable[[], Awaitable[T]]) -> T:
        """Await `call` as soon as the limiter admits it, and return its result; its errors are passed on.

        Raises `NotLeader` if the limiter is closed.
        """
        rank = self._rank(flow)
        waits = self._rings[rank] or self._closed or not (self._is_open(rank) and self._has_share(flow))
        place = await self._wait_for_turn(flow) if waits else self._enter(flow, rank)
        try:
            if self._token_bucket.limits:
                await unless_withdrawn(self._token_bucket.wait())
            if self._closed:
                raise _shutting_down()
            return await self._observed(place, call)
        finally:
            self._leave(place)

    async def _observed(self, place: _Place, call: Callable[[], Awaitable[T]]) -> T:
        """Await `call`, and learn from how it ends, or that it does not soon. A quick error says nothing."""
        clock = asyncio.get_running_loop().time
        place.began = clock()
        self._young[place] = None
        if self._timer is None:
            self._watch()
        try:
            result = await call()
        except TooManyRequests as error:
            if not error.from_webhook:
                self._resize(max(self._width / 2, 1.0))
            elif place in self._young:
                self._learn_share(place.flow, clock(), slow=True)
            raise
        finally:
            is_slow = place not in self._young
            self._young.pop(place, None)
        if self._width < self._widest:
            self._resize(min(self._width + 1 / self._width, self._widest))
        if self._shares and not is_slow:
            self._learn_share(place.flow, clock(), slow=False)
        return result

    def _watch(self) -> None:
        """Note the oldest request once it is slow. A timer for each request would cost too much."""
        if self._young:
            self._timer = asyncio.get_running_loop().call_at(next(iter(self._young)).began + SLOW, self._note_slow)

    def _note_slow(self) -> None:
        now = asyncio.get_running_loop().time()
        for place in [*takewhile(lambda one: one.began <= now - SLOW + INSTANT, self._young)]:
            del self._young[place]
            self._aside += not place.aside
            place.aside = True
            if place is self._out_of_turn:
                self._out_of_turn = None
            self._learn_share(place.flow, now, slow=True)
        self._timer = None
        self._watch()
        self._admit()

    def close(self) -> None:
        """Admit no more requests: waiting and new ones raise `NotLeader`; those in flight continue."""
        self._closed = True
        for ring in self._rings:
            for _, _, turn in chain.from_iterable(ring.values()):
                if not turn.done():
                    turn.set_exception(_shutting_down())
            ring.clear()
        self._since.clear()

    async def _wait_for_turn(self, flow: str) -> _Place:
        if self._closed:
            raise _shutting_down()
        turn: asyncio.Future[_Place] = next_turn()
        waiting = RECONCILE_NUMBER.get(), next(self._arrivals), turn
        heapq.heappush(self._rings[self._rank(flow)].setdefault(flow, []), waiting)
        self._note(flow)
        self._admit()
        try:
            return await turn
        except asyncio.CancelledError:
            # Whether it was admitted, and cancelled before it could run.
            if turn.done() and not turn.cancelled() and not turn.exception():
                self._leave(turn.result())
            raise

    def _enter(self, flow: str, rank: int) -> _Place:
        place = _Place(flow, rank > 0)
        self._total += 1
        self._aside += place.aside
        self._under_way[flow] = self._under_way.get(flow, 0) + 1
        return place

    def _leave(self, place: _Place) -> None:
        self._total -= 1
        self._aside -= place.aside
        self._under_way[place.flow] -= 1
        if not self._under_way[place.flow]:
            del self._under_way[place.flow]
        if place is self._out_of_turn:
            self._out_of_turn = None
        self._admit()

    def _admit(self) -> None:
        for rank, ring in enumerate(self._rings if any(self._rings) else ()):
            while ring and self._is_open(rank):
                newest = None if rank else self._newest()
                flow = newest or next(filter(self._has_share, ring), None)
                if flow is None:
                    break
                queue = ring.pop(flow)
                _, _, turn = heapq.heappop(queue)
                if queue:
                    ring[flow] = queue
                self._note(flow)
                if not turn.done():  # it was neither cancelled nor withdrawn
                    place = self._enter(flow, self._rank(flow))
                    self._out_of_turn = place if newest else self._out_of_turn
                    turn.set_result(place)

    def _note(self, flow: str) -> None:
        """Note whether a flow waits in the first ring, and that it did not before."""
        if flow in self._rings[0]:
            self._since.setdefault(flow)
        else:
            self._since.pop(flow, None)

    def _newest(self) -> str | None:
        """Return the flow without a request in flight that began to wait last, if a request may be out of turn."""
        if self._out_of_turn or self.width == 1:
            return None
        return next(filterfalse(self._under_way.__contains__, reversed(self._since)), None)

    def _rank(self, flow: str) -> int:
        """Return the index of the ring of a flow."""
        return min(self._shares[flow][2], 2) if flow in self._shares else 0

    def _is_open(self, rank: int) -> bool:
        if rank:
            return self._aside < max(1, self.width // 2)
        return self._total - min(self._aside, MAX_ASIDE) < self.width

    def _has_share(self, flow: str) -> bool:
        share = self.share(flow) if flow in self._shares else self._largest_share
        return self._under_way.get(flow, 0) < share

    def _resize(self, width: float) -> None:
        self._width = width
        #: The number of requests that may be in flight now, besides those of slow flows.
        self.width = max(1, int(width))
        self._largest_share = max(1, int(self.width * LARGEST_SHARE))

    def _learn_share(self, flow: str, now: float, *, slow: bool) -> None:
        queue = self._rings[self._rank(flow)].pop(flow, None)
        share, _, times = self._shares.pop(flow, (self._widest, 0.0, 0))
        share = max(share / 2, 1.0) if slow else share + 1 / share
        if slow or share < self._widest:
            self._shares[flow] = share, now, times + 1 if slow else 0
        if queue:
            self._rings[self._rank(flow)][flow] = queue
            self._note(flow)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget what was learned long ago, but of a flow that waits: its turn may not come for as long."""
        for old in [*takewhile(lambda one: self._shares[one][1] < now - KEPT, self._shares)]:
            share, _, times = self._shares.pop(old)
            if old in self._under_way or old in self._rings[min(times, 2)]:
                self._shares[old] = share, now, times


class Limiters:
    """One limiter for reads, one for lists and one for each kind of write, so that none waits for another."""

    def __init__(self, token_bucket: TokenBucket) -> None:
        self.creates, self.deletes = Limiter(CREATES, token_bucket), Limiter(DELETES, token_bucket)
        self.statuses, self.events = Limiter(STATUSES, token_bucket), Limiter(EVENTS, token_bucket)
        #: Those of what is recorded about jobs; the ConfigMaps that pods mount are among the creates.
        self.config_maps = Limiter(CONFIG_MAPS, token_bucket)
        self.reads, self.lists = Limiter(READS, TokenBucket()), Limiter(LISTS, TokenBucket())

    def close(self) -> None:
        """Admit from now on only Events and ConfigMaps, which say what was done; writes in flight continue."""
        for limiter in (self.creates, self.deletes, self.statuses):
            limiter.close()

    def waiting(self) -> dict[str, int]:
        """Return the number of waiting writes of each limiter."""
        limiters = ("creates", "deletes", "statuses", "events", "config_maps")
        return {name: getattr(self, name).waiting for name in limiters}


def _shutting_down() -> NotLeader:
    return NotLeader("not sent: the operator is shutting down")


async def run_with_slow_start(
    tasks: Sequence[Callable[[], Awaitable[None]]],
    width: int = 32,
    *,
    known: int = 0,
    proceed: Awaitable[bool] | None = None,
) -> list[ApiError]:
    """Run tasks, the first alone; a definite error or withdrawal stops the tasks not yet started. Return the errors.

    Each task that succeeds lets one more run at a time, so their number doubles, from 2 or those `known` to be accepted
    to `width`: a bad template costs one request, and an exhausted quota at most one more than it has accepted. This is
    the slow start of Kubernetes' controllers, which wait for all of a round. If only a task's name is taken, the others
    run: their names may be free, unless many are taken. If `proceed` has the result False, only the first task runs.
    """
    errors: list[ApiError] = []
    left = deque(tasks)
    at_once = min(width, max(known, 2))

    async def work() -> None:
        nonlocal at_once
        while left and not (is_withdrawn() or (errors and _stops(errors, width))):
            if await _succeeds(left.popleft(), errors) and left and at_once < width:
                at_once += 1
                await run_concurrently([work] * min(2, len(left)))
                return

    begins = left and not is_withdrawn() and await _succeeds(left.popleft(), errors)
    if begins and left and (proceed is None or await proceed):
        await run_concurrently([work] * min(at_once, len(left)))
    return errors


async def _succeeds(task: Callable[[], Awaitable[None]], errors: list[ApiError]) -> bool:
    """Run a task; return whether it says that others will be accepted, as it does if only its name is taken."""
    try:
        await task()
    except ApiError as error:
        errors.append(error)
        return isinstance(error, NameConflict)
    return True


def _stops(errors: list[ApiError], width: int) -> bool:
    taken = [error for error in errors if isinstance(error, NameConflict)]
    return len(taken) >= max(width // 2, 1) or any(isinstance(e, DEFINITE) and e not in taken for e in errors)


async def run_concurrently(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Await all `calls`, at least one, and return their results.

    If one fails, the others are cancelled; if one is cancelled, so is the caller. The first runs in the caller's task,
    because each further task takes about 30,000 instructions.
    """
    first, *others = calls
    if not others:
        return [await first()]
    wrap = TASK_WRAPPER.get(operator.call)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wrap(call)) for call in others]
        result = await first()
    return [result, *(task.result() for task in tasks)]


async def retry(call: Callable[[], Awaitable[T]], is_final: Callable[[ApiError], bool] = lambda _error: False) -> T:
    """Await `call`; retry it a few times while the outcome is unknown or the server throttles, unless `is_final`."""
    for tried in range(1, TRIES):
        try:
            return await call()
        except Unavailable as error:
            if is_final(error):
                raise
            await unless_withdrawn(asyncio.sleep(RETRY_DELAY * 2**tried * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter
        except TooManyRequests as error:
            if is_final(error):
                raise
            # What replaces a request that is withdrawn must not be sent before the server wants it either.
            await asyncio.sleep(error.wait * random.uniform(1.0, 1.5))  # noqa: S311 - jitter
            await unless_withdrawn(asyncio.sleep(0))
    return await call()

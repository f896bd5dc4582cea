"""The work queue of job keys, and the workers that reconcile them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import count
from typing import Protocol

from trainshed.api.job import JobKey
from trainshed.client import ApiError, Conflict, PreviousJobTerminating
from trainshed.client.flow_control import RECONCILE_NUMBER, TASK_WRAPPER
from trainshed.process import job_fields

from .job_errors import (
    AFTER_CONFLICT,
    AFTER_ERROR,
    AFTER_REFUSAL,
    CAUSES_EVENTS,
    LASTING,
    LONG,
    PAUSE,
    JobErrors,
    limits_of,
)
from .loop_time import INSTANT, LoopTime, Timed
from .observer import Observer
from .refused_jobs import RefusedJobs, Tries
from .result import Result

#: The minimum number of seconds between two reconciles of the same job, so that many events cost few reconciles. If a
#: plan asks for the next reconcile, it follows at once: the failed pod is gone, and its replacement is waited for.
MIN_RECONCILE_INTERVAL = 0.02
#: The seconds to wait for each pod of the job after a reconcile that has done nothing, as when its pods start one after
#: another: a reconcile takes a time in proportion to their number.
IDLE_INTERVAL_PER_POD = 0.0001
#: The maximum number of reconciles of a namespace that have just started, and the seconds for which they count. So of
#: many new jobs the first get their pods while the others wait, but slow ones, as a webhook causes them, do not hold up
#: the namespace. The next ones start together when at most FEW_STARTING of these are left: plans in a row cost less
#: processor time, because the code and data of one are in the processor's caches for the next.
MAX_STARTING, FEW_STARTING, STARTING = 16, 4, 1.0
#: The number of jobs that are processed at a time, and the largest one of a namespace; the client's limiters bound the
#: number of requests. Where an admission webhook does not answer, reconciles wait for it, and must leave room for those
#: of other namespaces: the more of these wait, the smaller is the share of each, and one that has nothing in process is
#: never held up.
MAX_CONCURRENT_RECONCILES, MAX_PROCESSING = 2000, 250
#: A namespace may have this part of what is free of a thing that all namespaces share.
PART = 4
#: The part of a back-off after a conflict during which no event ends it. In the rest an event does: just after an event
#: the cache has the latest version of the job, so a write is most likely to succeed.
MIN_WAIT = 0.8


class WorkQueue:
    """The work queue; a key is in at most one of `ready` and `processing`.

    `ready` keys wait for a worker, `processing` ones have one, `again` were added meanwhile, and `later` have a timer.
    A job that another client writes as well has a `not_before` time. Keys of a `full` namespace wait, as too many of it
    start, and those of one that has its share of what is processed. Those of one that has its share of the event loop
    wait while others are ready or have just started. `waited` is called with the seconds that each key has been ready.
    """

    def __init__(self, waited: Callable[[float], None]) -> None:
        self._waited = waited
        self._ready: OrderedDict[str, deque[JobKey]] = OrderedDict()
        self._since: dict[JobKey, float] = {}
        self._processing: set[JobKey] = set()
        self._processing_in: Counter[str] = Counter()
        self._taken = 0
        self._again: set[JobKey] = set()
        self._continued: set[JobKey] = set()
        self._later: dict[JobKey, asyncio.TimerHandle] = {}
        self._failures, self._refused = JobErrors(), RefusedJobs()
        self._not_before: dict[JobKey, float] = {}
        self._gone: set[JobKey] = set()
        self._starting: dict[JobKey, asyncio.TimerHandle] = {}
        self._starting_in: Counter[str] = Counter()
        self._full: set[str] = set()
        self._loop_time = LoopTime()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._since)

    def add(self, key: JobKey) -> None:
        """Enqueue a job that may have changed."""
        if key in self._processing:
            self._again.add(key)
        elif (seconds := self._not_before.get(key, 0.0) - _clock()) > INSTANT:
            self.add_later(key, seconds)
        elif key not in self._since:
            self._since[key] = _clock()
            self._ready.setdefault(key.namespace, deque()).append(key)
            self._some.set()

    def add_later(self, key: JobKey, seconds: float) -> None:
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

    async def take(self) -> JobKey:
        """Return the next key when there is one; no other call returns it before `done`.

        Its timer is cancelled: each reconcile returns its next due time, and a finished or deleted job has none.
        """
        while (namespace := self._next()) is None:
            self._some.clear()
            await self._some.wait()
        keys = self._ready.pop(namespace)
        key = keys.popleft()
        if keys:
            self._ready[namespace] = keys
        self._waited(_clock() - self._since.pop(key))
        self._loop_time.began(key)
        self._gone.discard(key)
        self._processing.add(key)
        self._processing_in[namespace] += 1
        self._taken += 1
        self._starting_in[namespace] += 1
        if self._starting_in[namespace] >= MAX_STARTING:
            self._full.add(namespace)
        self._starting[key] = asyncio.get_running_loop().call_later(STARTING, self._started, key)
        if timer := self._later.pop(key, None):
            timer.cancel()
        return key

    def done(self, key: JobKey, *, idle: bool = False, pods: int = 0, continues: bool = False) -> None:
        """Mark a key as processed. If it was added meanwhile, it is enqueued again after a short delay.

        `idle` is whether its reconcile has changed nothing, `pods` the number of pods of the job. The next one follows
        at once if this one `continues`; if that one is idle, what it waits for will come soon.
        """
        self._processing_in[key.namespace] -= 1
        self._taken -= 1
        if key in self._starting:
            self._starting[key].cancel()
            self._started(key)
        else:
            self._make_room(key.namespace)
        interval = max(MIN_RECONCILE_INTERVAL, IDLE_INTERVAL_PER_POD * pods if idle else 0.0)
        if key in self._continued:
            self._continued.remove(key)
            interval = MIN_RECONCILE_INTERVAL
        elif continues:
            self._continued.add(key)
            interval = 0.0
        asyncio.get_running_loop().call_later(interval, self._release, key)

    def took(self, key: JobKey, seconds: float) -> None:
        """Count the time for which the reconcile of a key has kept the event loop."""
        if wait := self._loop_time.count(key, seconds):
            asyncio.get_running_loop().call_later(wait, self._some.set)

    def failed(self, key: JobKey, first: float, longest: float) -> float:
        """Enqueue the job after a back-off, of which the first and the longest are given; return the seconds.

        An event ends it early, a long one not before PAUSE; as each try doubles it, a job that has failed for seconds
        waits for seconds. One that has the name of one that was being reconciled until now does not wait.
        """
        if seconds := self._count_failure(key, limits := (first, longest)):
            seconds = min(seconds, first + self._failures.lasted(key, limits, _clock()))
            self.add_later(key, seconds)
        return seconds

    def conflicted(self, key: JobKey, first: float, longest: float) -> float:
        """Do the same as `failed`, but let an event shorten the back-off only a little.

        After a conflict another client may be writing the job all the time, so its events come all the time.
        """
        if seconds := self._count_failure(key, (first, longest)):
            self._not_before[key] = _clock() + seconds * MIN_WAIT
            self.add_later(key, seconds)
        return seconds

    def went_well(self, key: JobKey) -> None:
        """Reset the back-off. If its pods were refused there may be room for those of others."""
        self._failures.forget(key)
        self._not_before.pop(key, None)
        self._try(self._refused.forget(key, _clock()))

    def refused(self, key: JobKey, *, progressed: bool) -> None:
        """Enqueue the job also when there may be room for its pods; some were accepted if it has `progressed`."""
        self._try(self._refused.refused(key, _clock(), progressed=progressed))

    def freed(self, namespace: str) -> None:
        """Enqueue a job whose pods are refused, if there is one: a pod of its namespace has ended or is gone."""
        self._try(self._refused.freed(namespace, _clock()))

    def left(self, key: JobKey) -> None:
        """Reset the back-off of a job that has left its name, which another may have now."""
        self.went_well(key)
        if key in self._processing:
            self._gone.add(key)

    def is_news(self, key: JobKey, message: str) -> bool:
        """Return whether the job has had no such error since its last success."""
        return self._failures.is_news(key, message)

    def clear(self) -> None:
        """Forget all keys, with their timers and back-off; those that are being processed are not enqueued again."""
        for timer in self._later.values():
            timer.cancel()
        for known in (self._later, self._ready, self._since, self._not_before, self._continued):
            known.clear()
        self._failures.clear()
        self._refused.clear()
        self._again.clear()

    def _next(self) -> str | None:
        """Return the first namespace whose next key may be taken, or None."""
        most = min(MAX_PROCESSING, largest_share(MAX_CONCURRENT_RECONCILES - self._taken))
        found = (name for name in self._ready if name not in self._full and self._processing_in.get(name, 0) < most)
        return self._loop_time.next(found, busy=bool(self._starting))

    def _count_failure(self, key: JobKey, limits: tuple[float, float]) -> float:
        """Return the back-off of a job, during which events wait for PAUSE if it is long; 0 if the job has left."""
        if key in self._gone:
            self.add(key)
            return 0.0
        seconds = self._failures.backoff(key, limits, _clock())
        if seconds >= LONG:
            self._not_before[key] = _clock() + PAUSE
        return seconds

    def _try(self, tries: Tries) -> None:
        keys, seconds = tries
        for key in keys:
            self.add_later(key, seconds)

    def _started(self, key: JobKey) -> None:
        del self._starting[key]
        self._starting_in[key.namespace] -= 1
        self._make_room(key.namespace)

    def _make_room(self, namespace: str) -> None:
        """Let the next key of a namespace be taken if few of it start."""
        if self._starting_in[namespace] <= FEW_STARTING:
            self._full.discard(namespace)
        for counted in (self._starting_in, self._processing_in):
            if not counted[namespace]:
                del counted[namespace]
        self._some.set()

    def _release(self, key: JobKey) -> None:
        self._processing.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _due(self, key: JobKey) -> None:
        self._later.pop(key, None)
        self.add(key)


def largest_share(free: int) -> int:
    """Return how much a namespace may have while this much is free: the less, the more the others have; at least 1.

    So a namespace that has nothing always gets something, however many others have all that they may have: of 2,000
    eight of them take 166 each and leave 672, and a hundred take 19 each. The buffers of network switches are shared by
    such dynamic thresholds.
    """
    return max(1, free // PART)


def _clock() -> float:
    return asyncio.get_running_loop().time()


log = logging.getLogger(__name__)


class ReconcilerProtocol(Protocol):
    """Reconciles jobs."""

    async def reconcile(self, key: JobKey, now: datetime) -> Result:
        """Observe the job, plan, and execute the plan."""
        ...


class Worker:
    """Runs reconciles while `may_act` returns true.

    `reconcilers` has one for each namespace, or one for all with an empty name.
    """

    def __init__(
        self,
        queue: WorkQueue,
        reconcilers: Mapping[str, ReconcilerProtocol],
        metrics: Observer,
        may_act: Callable[[], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._queue = queue
        self._reconcilers = reconcilers
        self._metrics = metrics
        self._may_act = may_act
        self._now = now
        self._running: dict[asyncio.Task[None], None] = {}  # ordered, for deterministic tests
        self._numbers = count(1)

    async def run(self) -> None:
        """Take keys until `may_act` returns false."""
        while True:
            key = await self._queue.take()
            if not self._may_act():
                self._queue.done(key)
                return
            task = asyncio.create_task(self._reconcile(key), name=str(key))
            self._running[task] = None
            task.add_done_callback(self._running.pop)
            await asyncio.sleep(0)  # so that the first job's requests are sent before the last job is planned

    async def finish(self, seconds: float) -> bool:
        """Wait up to `seconds` for the running reconciles; return whether all have finished."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        return not self._running

    async def give_up(self) -> None:
        """Cancel the running reconciles and wait until they have ended."""
        tasks = tuple(self._running)
        self.break_off()
        await asyncio.gather(*tasks, return_exceptions=True)

    def break_off(self) -> None:
        """Cancel the running reconciles without waiting."""
        for task in self._running:
            task.cancel()

    async def _reconcile(self, key: JobKey) -> None:
        began, now = asyncio.get_running_loop().time(), self._now()
        RECONCILE_NUMBER.set(next(self._numbers))
        idle, pods, continues = False, 0, False
        timed = Timed(self._result(key, now))
        TASK_WRAPPER.set(timed.task)
        try:
            result = await timed
            idle, pods = not (result.message or result.error), result.pods
            continues = result.error is None and result.requeue_at is not None and result.requeue_at <= now
            self._settle(key, now, result)
        except asyncio.CancelledError:
            self._queue.add(key)  # perhaps cancelled by kopf, which at its end cancels every task younger than itself
            raise
        except Exception:  # the one broad except: the worker must survive
            self._metrics.count_internal_error()
            log.exception("%s: internal error in Trainshed; please report it", key, extra=job_fields(key))
            self._queue.failed(key, *AFTER_ERROR)
        finally:
            self._metrics.observe_reconcile(asyncio.get_running_loop().time() - began)
            self._queue.took(key, timed.seconds)
            self._queue.done(key, idle=idle, pods=pods, continues=continues)

    async def _result(self, key: JobKey, now: datetime) -> Result:
        reconciler = self._reconcilers.get(key.namespace) or self._reconcilers[""]
        return await reconciler.reconcile(key, now)

    def _settle(self, key: JobKey, now: datetime, result: Result) -> None:
        if result.error is None:
            if not result.waits:
                self._queue.went_well(key)
            if result.message:
                log.info("%s: %s", key, result.message, extra=job_fields(key))
        else:
            self._fail(key, result, result.error)
        # After an error the job is not reconciled before the back-off ends, except for what is due by the clock, such
        # as a deadline that passes while pods are rejected.
        if result.requeue_at and (result.error is None or result.requeue_at > now):
            self._queue.add_later(key, (result.requeue_at - self._now()).total_seconds())

    def _fail(self, key: JobKey, result: Result, error: ApiError) -> None:
        """Log in one line what was done and what failed, as a warning once until the next success.

        The back-off is a maximum: a change of the job shortens it. A job that is gone by now has none, and its error is
        no warning: some of its objects went while others were made.
        """
        self._metrics.count_error(error)
        conflict = isinstance(error, Conflict)
        wait = self._queue.conflicted if isinstance(error, CAUSES_EVENTS) else self._queue.failed
        seconds = wait(key, *(AFTER_REFUSAL if result.blocked else limits_of(error)))
        if result.blocked:
            self._queue.refused(key, progressed=bool(result.message))
        waits = isinstance(error, PreviousJobTerminating)
        normal = waits or not seconds or (conflict and not LASTING <= seconds < AFTER_CONFLICT[1])
        level = logging.WARNING
        if result.known or normal or not self._queue.is_news(key, f"{error.reason}: {error}"):
            level = logging.INFO if result.message else logging.DEBUG
        done = f"{result.message}: " if result.message else ""
        text = "%s: %s%s: %s; retrying in at most %.1f s"
        log.log(level, text, key, done, error.reason, error, seconds, extra=job_fields(key))

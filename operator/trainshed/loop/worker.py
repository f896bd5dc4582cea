"""The worker: takes keys from the work queue, reconciles each in a task, and survives every error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from trainshed.client import ApiError, Conflict, Forbidden, Invalid, NameConflict, StatusRejected

from .journal import about
from .metrics import Metrics
from .queue import Queue
from .reconcile import Outcome
from .view import Key

#: The maximum number of concurrent reconciles; the number of requests is bounded by the client's limiters.
MOST = 2000
#: Back-off in seconds, the first and the longest: after a definite refusal, which people must resolve, and after any
#: other error, which is usually transient (a few seconds after an outage all jobs must continue).
AFTER_NO, AFTER_ERROR = (1.0, 20.0), (0.1, 8.0)
#: Back-off after a conflict: one is normal and must cost no noticeable time. Where another client writes the job tens
#: of times a second, only one try in several succeeds, and a longer back-off would keep the status from ever being
#: stored.
AFTER_CONFLICT = (0.01, 0.5)
#: Seconds of back-off at which conflicts are logged as a warning, once in a row of them: so many are not normal.
LASTING = 0.25
#: Back-off after a rejected status: someone must replace the CRD, or the job.
AFTER_REJECTION = (1.0, 120.0)

log = logging.getLogger(__name__)


class Looker(Protocol):
    """Reconciles jobs."""

    async def look(self, key: Key, now: datetime) -> Outcome:
        """Observe the job, plan, and execute the plan."""
        ...


class Worker:
    """Runs reconciles while `may_act` returns true."""

    def __init__(
        self,
        queue: Queue,
        looker: Looker,
        metrics: Metrics,
        may_act: Callable[[], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._queue = queue
        self._looker = looker
        self._metrics = metrics
        self._may_act = may_act
        self._now = now
        self._room = asyncio.Semaphore(MOST)
        self._looks: dict[asyncio.Task[None], None] = {}  # ordered, for deterministic tests

    async def run(self) -> None:
        """Take keys until `may_act` returns false."""
        while True:
            await self._room.acquire()
            key = await self._queue.take()
            if not self._may_act():
                self._queue.done(key)
                self._room.release()
                return
            task = asyncio.create_task(self._look(key), name=str(key))
            self._looks[task] = None
            task.add_done_callback(self._looks.pop)

    async def finish(self, seconds: float) -> bool:
        """Wait up to `seconds` for the running reconciles; return whether all have finished."""
        if self._looks:
            await asyncio.wait(self._looks, timeout=seconds)
        return not self._looks

    async def give_up(self) -> None:
        """Cancel the running reconciles and wait until they have ended."""
        looks = tuple(self._looks)
        self.break_off()
        await asyncio.gather(*looks, return_exceptions=True)

    def break_off(self) -> None:
        """Cancel the running reconciles without waiting."""
        for look in self._looks:
            look.cancel()

    async def _look(self, key: Key) -> None:
        began, now = asyncio.get_running_loop().time(), self._now()
        try:
            self._settle(key, now, await self._looker.look(key, now))
        except asyncio.CancelledError:
            self._queue.add(key)  # perhaps cancelled by kopf, which at its end cancels every task younger than itself
            raise
        except Exception:  # the one broad except: the worker must survive
            self._metrics.crashed()
            log.exception("%s: internal error in Trainshed; please report it", key, extra=about(key))
            self._queue.failed(key, *AFTER_ERROR)
        finally:
            self._metrics.looked(asyncio.get_running_loop().time() - began)
            self._queue.done(key)
            self._room.release()

    def _settle(self, key: Key, now: datetime, outcome: Outcome) -> None:
        if outcome.told:
            log.info("%s: %s", key, outcome.told, extra=about(key))
        if outcome.error is None:
            self._queue.went_well(key)
        else:
            self._fail(key, outcome.error, known=outcome.known)
        # After an error the job is not reconciled before the back-off ends, except for what is due by the clock, such
        # as a deadline that passes while pods are rejected.
        if outcome.look_again and (outcome.error is None or outcome.look_again > now):
            self._queue.add_later(key, (outcome.look_again - self._now()).total_seconds())

    def _fail(self, key: Key, error: ApiError, *, known: bool) -> None:
        self._metrics.failed(error)
        conflict = isinstance(error, Conflict)
        wait = self._queue.conflicted if conflict else self._queue.failed
        seconds = wait(key, *_backoff(error))
        normal = conflict and not LASTING <= seconds < AFTER_CONFLICT[1]
        level = logging.DEBUG if known or normal else logging.WARNING
        log.log(level, "%s: %s: %s; retrying in %.1f s", key, error.reason, error, seconds, extra=about(key))


def _backoff(error: ApiError) -> tuple[float, float]:
    if isinstance(error, Conflict):
        return AFTER_CONFLICT
    if isinstance(error, StatusRejected):
        return AFTER_REJECTION
    return AFTER_NO if isinstance(error, (Forbidden, Invalid, NameConflict)) else AFTER_ERROR

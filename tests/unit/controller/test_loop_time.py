"""Jobs that keep the event loop for long leave most of it to those of other namespaces."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.api.job import JobKey
from trainshed.controller.loop_time import BURST, SHARE, SHORT, LoopTime, Timed
from trainshed.controller.metrics import Metrics
from trainshed.controller.workqueue import Result, Worker, WorkQueue

QUIET = JobKey("quiet", "TFJob", "only")
CROWD = tuple(JobKey("crowd", "TFJob", str(number)) for number in range(50))


def keep(seconds: float) -> None:
    """Use the processor for this long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def process(queue: WorkQueue, seconds: float, within: float) -> int:
    """Process what comes, each key for this long; return the number of keys."""
    count, end = 0, clock() + within
    while clock() < end:
        try:
            async with asyncio.timeout_at(end):
                key = await queue.take()
        except TimeoutError:
            break
        await asyncio.sleep(seconds)
        queue.took(key, seconds)
        queue.done(key)
        queue.add(key)
        count += 1
    return count


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.5])
def test_a_namespace_gets_its_share_of_the_loop_and_others_need_not_wait_for_it(seconds):
    async def story() -> tuple[float, int]:
        queue = WorkQueue(lambda _seconds: None)
        for key in CROWD:
            queue.add(key)
        used = await process(queue, seconds, 20) * (seconds - SHORT)
        queue.add(QUIET)
        async with asyncio.timeout(0.001):
            first = await queue.take()
            return used, 0 if first == QUIET else 1 + CROWD.count(await queue.take())

    used, before = in_virtual_time(story())
    assert before <= 1
    assert SHARE * 20 * 0.8 <= used <= SHARE * 20 + BURST + seconds


def test_short_reconciles_do_not_wait():
    async def story() -> int:
        queue = WorkQueue(lambda _seconds: None)
        for key in CROWD:
            queue.add(key)
        return await process(queue, SHORT, 2)

    assert in_virtual_time(story()) == pytest.approx(2 / SHORT, rel=0.01)


async def test_a_worker_counts_the_time_in_which_reconciles_keep_the_loop_and_not_that_in_which_they_wait():
    seen: list[JobKey] = []

    class Large:
        async def reconcile(self, key: JobKey, _now: datetime) -> Result:
            seen.append(key)
            keep(2 * BURST if key == CROWD[0] else 0)
            await asyncio.sleep(2 * BURST)
            keep(BURST if key == CROWD[0] else 0)
            return Result()

    queue = WorkQueue(lambda _seconds: None)
    task = asyncio.create_task(Worker(queue, {"": Large()}, Metrics(), lambda: True, lambda: datetime.now(UTC)).run())
    for first, second in ((QUIET, QUIET), (CROWD[0], CROWD[1])):
        queue.add(first)
        await asyncio.sleep(0.01)
        queue.add(second)
        await asyncio.sleep(4 * BURST)
    queue.add(CROWD[2])
    await asyncio.sleep(BURST)
    assert seen == [QUIET, QUIET, CROWD[0], CROWD[1]]
    task.cancel()


async def test_a_timed_coroutine_returns_raises_and_is_cancelled_like_any_other():
    async def work(end: str) -> str:
        try:
            await asyncio.sleep(0 if end else 60)
            int(await Timed(asyncio.sleep(0.001, end)))
        except ValueError as error:
            return str(error)
        finally:
            keep(0.001)

    timed = Timed(work("an error"))
    assert "an error" in await timed
    assert 0.001 <= timed.seconds < 0.1
    task = asyncio.create_task(_awaited(Timed(work(""))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    Timed(work("")).__await__().close()


async def _awaited(timed: Timed[str]) -> str:
    return await timed


def test_namespaces_that_no_longer_keep_the_loop_are_forgotten():
    async def story() -> int:
        known = LoopTime()
        for number in range(1000):
            known.count(f"namespace-{number}", 2 * SHORT)
            await asyncio.sleep(0.1)
        return len(known)

    assert in_virtual_time(story()) <= 2

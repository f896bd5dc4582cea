"""Jobs that keep the event loop for long leave most of it to those of other namespaces."""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import UTC, datetime
from functools import partial

import pytest

from support.harness import KEY, Harness, a_spec
from support.virtual_time import clock, in_virtual_time
from trainshed.api.job import JobKey
from trainshed.client.flow_control import TASK_WRAPPER, run_concurrently
from trainshed.controller.health import LoopLagMonitor
from trainshed.controller.loop_time import BURST, PAUSE, SHARE, SHORT, SHORTEST_PAUSE, STEP, LoopTime, Timed
from trainshed.controller.metrics import Metrics
from trainshed.controller.workqueue import STARTING, Result, Worker, WorkQueue

QUIET = JobKey("quiet", "TFJob", "only")
CROWD = tuple(JobKey("crowd", "TFJob", str(number)) for number in range(50))


def keep(seconds: float) -> None:
    """Use the processor for this long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def keep_virtual(seconds: float) -> None:
    """Keep the loop for this long in virtual time; then it looks once at what is due."""
    asyncio.get_running_loop().suspend(seconds)
    await asyncio.sleep(0.000_001)


async def process(queue: WorkQueue, seconds: float, within: float) -> int:
    """Process what comes, each key for this long; return the number of keys."""
    count, end = 0, clock() + within
    while clock() < end:
        try:
            async with asyncio.timeout_at(end):
                key = await queue.take()
        except TimeoutError:
            break
        await keep_virtual(seconds)
        queue.took(key, seconds)
        queue.done(key)
        queue.add(key)
        count += 1
    return count


@pytest.mark.parametrize("seconds", [0.003, 0.01, 0.05])
def test_a_namespace_has_the_loop_while_others_do_not_want_it_and_these_wait_for_one_reconcile_at_most(seconds):
    async def story() -> tuple[float, bool]:
        queue = WorkQueue(lambda _seconds: None)
        for key in CROWD:
            queue.add(key)
        used = await process(queue, seconds, 20) * seconds
        queue.add(QUIET)
        async with asyncio.timeout(0.001):
            return used, await queue.take() == QUIET or await queue.take() == QUIET

    used, is_soon = in_virtual_time(story())
    assert used >= 20 * (0.8 if seconds > SHORTEST_PAUSE / PAUSE / 2 else 0.5)
    assert is_soon


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5])
def test_the_liveness_probe_takes_a_loop_that_one_namespace_has_for_no_hung_one(seconds):
    async def story() -> tuple[float, str]:
        queue, monitor = WorkQueue(lambda _seconds: None), LoopLagMonitor()
        task = asyncio.create_task(monitor.run())
        for key in CROWD:
            queue.add(key)
        used = await process(queue, seconds, 300) * seconds
        task.cancel()
        return used, monitor.problem

    used, problem = in_virtual_time(story())
    assert problem == ""
    assert used >= 300 * 0.35


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.5])
def test_a_namespace_gets_its_share_of_the_loop_while_others_want_it_whatever_it_had_before(seconds):
    async def story() -> float:
        queue = WorkQueue(lambda _seconds: None)
        for key in CROWD:
            queue.add(key)
        await process(queue, seconds, 20)
        for number in range(300):
            queue.add(JobKey(f"other-{number % 3}", "TFJob", f"{number}"))
        used, end = 0.0, clock() + 20
        while clock() < end:
            key = await queue.take()
            needed = seconds if key in CROWD else SHORT
            await keep_virtual(needed)
            used += needed * (key in CROWD)
            queue.took(key, needed)
            queue.done(key)
            queue.add(key)
        return used

    used = in_virtual_time(story())
    assert used * (seconds - SHORT) / seconds == pytest.approx(SHARE * 20, rel=0.15)


def test_time_beyond_the_share_is_not_taken_while_a_reconcile_of_another_namespace_has_just_started():
    async def story() -> tuple[float, float]:
        queue = WorkQueue(lambda _seconds: None)
        for key in (QUIET, *CROWD):
            queue.add(key)
        assert await queue.take() == QUIET
        during = await process(queue, 0.05, 0.9 * STARTING)
        return during, await process(queue, 0.05, 0.9 * STARTING)

    during, after = in_virtual_time(story())
    assert during * 0.05 <= SHARE * STARTING + BURST + 0.1
    assert after * 0.05 >= 0.7 * STARTING, "one that waits for a webhook does not count"


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
            keep(BURST / 2 if key == CROWD[0] else 0)
            await run_concurrently([partial(asyncio.sleep, 2 * BURST), partial(self.send, key)])
            return Result()

        async def send(self, key: JobKey) -> None:
            await asyncio.sleep(0)
            keep(2 * BURST if key == CROWD[0] else 0)

    queue = WorkQueue(lambda _seconds: None)
    task = asyncio.create_task(Worker(queue, {"": Large()}, Metrics(), lambda: True, lambda: datetime.now(UTC)).run())
    for first, second in ((QUIET, QUIET), (CROWD[0], CROWD[1])):
        queue.add(first)
        await asyncio.sleep(0.01)
        queue.add(second)
        await asyncio.sleep(4 * BURST)
    for key in (QUIET, CROWD[2]):  # the first wants the loop, so the namespace of the second must wait
        queue.add(key)
    await asyncio.sleep(BURST)
    assert seen == [QUIET, QUIET, CROWD[0], CROWD[1], QUIET]
    task.cancel()


async def nothing(_harness: Harness) -> None:
    pass


async def suspend(harness: Harness) -> None:
    await harness.run_all()
    harness.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))
    harness.hear()


async def hide(harness: Harness) -> None:
    harness.world.submit("TFJob", "mnist", a_spec(Worker=8), {"trainshed.dev/restart-scope": "Job"})
    harness.hear()
    await harness.run_all()
    for name in list(harness.world.pods):
        harness.world.hide(name)
    harness.hear()


@pytest.mark.parametrize(
    ("verb", "prepare", "spec"),
    [
        ("create_pod", nothing, a_spec(Worker=8)),
        ("create_service", nothing, a_spec(Worker=8)),
        ("delete_pod", suspend, a_spec(Worker=8)),
        ("seek_pod", hide, None),
    ],
)
async def test_what_a_reconcile_does_on_the_loop_counts_in_whichever_task(verb, prepare, spec):
    harness, calls = Harness(spec), []
    await prepare(harness)
    call = getattr(harness.world, verb)

    async def heavy(*arguments: object) -> object:
        await asyncio.sleep(0)
        keep(0.01)
        calls.append(arguments)
        return await call(*arguments)

    setattr(harness.world, verb, heavy)
    timed = Timed(harness.reconciler.reconcile(KEY, harness.now()))
    TASK_WRAPPER.set(timed.task)
    await timed
    assert len(calls) == 8
    assert timed.seconds >= 8 * 0.01 * 0.8


@pytest.mark.parametrize(("seconds", "least", "most"), [(0.5 * STEP, 0, 0.5), (10 * STEP, 0.7, 1.2)])
async def test_what_small_requests_need_does_not_count_and_what_others_need_does(seconds, least, most):
    async def task() -> None:
        await asyncio.sleep(0)
        keep(seconds)

    gc.collect()  # now, and not while a task runs
    timed = Timed(run_concurrently([partial(asyncio.sleep, 0), *[task] * 40]))
    TASK_WRAPPER.set(timed.task)
    await timed
    assert least <= timed.seconds / (40 * seconds) <= most


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
    steps = Timed(work("")).__await__()
    next(steps)
    steps.close()


async def test_a_task_that_is_cancelled_before_it_starts_has_called_nothing():
    called: list[str] = []

    async def fails() -> None:
        raise ValueError

    async def task() -> None:
        called.append("task")

    timed = Timed(run_concurrently([fails, task]))
    TASK_WRAPPER.set(timed.task)
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await timed
    assert called == []


async def _awaited(timed: Timed[str]) -> str:
    return await timed


def test_namespaces_that_no_longer_keep_the_loop_are_forgotten():
    async def story() -> int:
        known = LoopTime()
        for number in range(1000):
            known.count(JobKey(f"namespace-{number}", "TFJob", "only"), 2 * SHORT)
            await asyncio.sleep(0.1)
        return len(known)

    assert in_virtual_time(story()) <= 2

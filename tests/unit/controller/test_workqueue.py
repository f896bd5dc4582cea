"""No key is lost, none has two workers, and each gets its turn."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.virtual_time import clock, in_virtual_time
from trainshed.api.job import JobKey
from trainshed.controller.workqueue import (
    FEW_STARTING,
    IDLE_INTERVAL_PER_POD,
    MAX_CONCURRENT_RECONCILES,
    MAX_PROCESSING,
    MAX_STARTING,
    MIN_RECONCILE_INTERVAL,
    MIN_WAIT,
    STARTING,
    WorkQueue,
)

A, B, C = (JobKey("ml", "TFJob", name) for name in "abc")


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def queue(waits) -> WorkQueue:
    return WorkQueue(waits.append)


async def take(queue: WorkQueue, within: float = 0.5) -> JobKey | None:
    """Return the next key, or None if none comes in time."""
    try:
        async with asyncio.timeout(within):
            return await queue.take()
    except TimeoutError:
        return None


async def test_a_key_that_is_added_twice_is_taken_once(queue, waits):
    for key in (A, B, A, A):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == [A, B]
    assert await take(queue, 0.01) is None
    assert len(waits) == 2


async def test_a_key_being_processed_is_requeued_after_done(queue):
    queue.add(A)
    await queue.take()
    queue.add(A)
    assert await take(queue, 0.05) is None
    queue.done(A)
    assert await take(queue) == A
    queue.done(A)
    assert await take(queue, 0.05) is None


def test_after_an_idle_reconcile_of_a_large_job_the_distance_is_longer():
    async def distance(*, idle: bool, pods: int = 0) -> float:
        queue, clock = WorkQueue(lambda _seconds: None), asyncio.get_running_loop().time
        queue.add(A)
        await queue.take()
        began = clock()
        queue.done(A, idle=idle, pods=pods)
        queue.add(A)
        await queue.take()
        return clock() - began

    assert in_virtual_time(distance(idle=False)) == pytest.approx(MIN_RECONCILE_INTERVAL)
    assert in_virtual_time(distance(idle=True, pods=100)) == pytest.approx(MIN_RECONCILE_INTERVAL)
    assert in_virtual_time(distance(idle=True, pods=1000)) == pytest.approx(1000 * IDLE_INTERVAL_PER_POD)
    assert in_virtual_time(distance(idle=True, pods=10_000)) == pytest.approx(10_000 * IDLE_INTERVAL_PER_POD)
    assert in_virtual_time(distance(idle=False, pods=10_000)) == pytest.approx(MIN_RECONCILE_INTERVAL)


def test_a_reconcile_that_continues_is_followed_at_once_and_an_idle_one_after_it_soon():
    async def times() -> list[float]:
        queue, clock, found = WorkQueue(lambda _seconds: None), asyncio.get_running_loop().time, []
        queue.add(A)
        for continues in (True, False, False):
            await queue.take()
            found.append(clock())
            queue.add(A)
            queue.done(A, idle=not continues, pods=1000, continues=continues)
        await queue.take()
        return [after - before for before, after in pairwise([*found, clock()])]

    distances = (0.0, MIN_RECONCILE_INTERVAL, 1000 * IDLE_INTERVAL_PER_POD)
    assert in_virtual_time(times()) == pytest.approx(distances)


async def test_a_reconcile_that_always_continues_keeps_the_minimum_distance(queue):
    clock = asyncio.get_running_loop().time
    queue.add(A)
    began = clock()
    for _ in range(4):
        assert await take(queue) == A
        queue.add(A)
        queue.done(A, continues=True)
    assert clock() - began >= MIN_RECONCILE_INTERVAL * 0.9


def test_many_jobs_of_a_namespace_start_in_groups_and_slow_ones_do_not_hold_it_up():
    async def story() -> None:
        queue, group = WorkQueue(lambda _seconds: None), MAX_STARTING - FEW_STARTING
        for number in range(2 * MAX_STARTING):
            queue.add(JobKey("ml", "TFJob", f"job-{number}"))
        queue.add(JobKey("other", "TFJob", "job"))
        taken = [await queue.take() for _ in range(MAX_STARTING + 1)]
        assert [key.namespace for key in taken].count("other") == 1
        assert await take(queue, 0.1) is None, "as many as may start at a time"
        fast = [key for key in taken if key.namespace == "ml"][:group]
        for key in fast[:-1]:
            queue.done(key)
        assert await take(queue, 0.1) is None, "the next ones start together"
        queue.done(fast[-1])
        second = [(await take(queue, 0.1)).name for _ in range(group)]
        assert second == [f"job-{MAX_STARTING + number}" for number in range(group)]
        assert await take(queue, 0.1) is None
        assert (await take(queue, STARTING)).name == f"job-{MAX_STARTING + group}", "the slow ones no longer count"

    in_virtual_time(story())


def test_jobs_that_are_processed_for_long_leave_room_for_other_namespaces():
    async def scenario() -> tuple[int, JobKey | None, JobKey | None]:
        queue = WorkQueue(lambda _seconds: None)
        for number in range(2 * MAX_PROCESSING):
            queue.add(JobKey("slow", "TFJob", f"{number}"))
        taken = []
        while key := await take(queue, 2 * STARTING):
            taken.append(key)
        queue.add(A)
        other = await take(queue, 2 * STARTING)
        queue.done(taken[0])
        return len(taken), other, await take(queue, 2 * STARTING)

    count, other, following = in_virtual_time(scenario())
    assert (count, other) == (MAX_PROCESSING, A)
    assert following == JobKey("slow", "TFJob", f"{MAX_PROCESSING}")


@pytest.mark.parametrize("dead", [8, 40, 3000])
def test_namespaces_without_answers_leave_room_for_others_however_many_they_are(dead):
    async def scenario() -> tuple[int, float]:
        queue = WorkQueue(lambda _seconds: None)
        for number in range(30_000):
            queue.add(JobKey(f"dead-{number % dead}", "TFJob", f"{number // dead}"))
        taken = 0
        while await take(queue, 2 * STARTING):
            taken += 1
        began = clock()
        for number in range(100):
            queue.add(JobKey("ml", "TFJob", f"{number}"))
        for _ in range(100):
            key = await take(queue, STARTING)
            assert key, "none waits for the others"
            await asyncio.sleep(0.01)
            queue.done(key)
        return taken, clock() - began

    taken, seconds = in_virtual_time(scenario())
    assert 1000 <= taken <= max(MAX_CONCURRENT_RECONCILES, dead)
    assert seconds == pytest.approx(1)


async def test_two_reconciles_of_a_job_have_a_minimum_distance(queue):
    clock = asyncio.get_running_loop().time
    queue.add(A)
    await queue.take()
    began = clock()
    queue.done(A)
    for _ in range(5):
        queue.add(A)
    assert await take(queue) == A
    assert clock() - began >= MIN_RECONCILE_INTERVAL * 0.9


@pytest.mark.fault("J12")
async def test_namespaces_take_turns(queue):
    many = [JobKey("crowd", "TFJob", str(number)) for number in range(3)]
    few = JobKey("quiet", "TFJob", "only")
    for key in (*many, few):
        queue.add(key)
    assert [await queue.take() for _ in range(4)] == [many[0], few, many[1], many[2]]


async def test_the_earliest_of_several_times_wins(queue):
    clock = asyncio.get_running_loop().time
    began = clock()
    queue.add_later(A, 30)
    queue.add_later(A, 0.05)
    queue.add_later(A, 10)
    assert await take(queue) == A
    assert 0.04 < clock() - began < 0.4
    queue.done(A)
    assert await take(queue, 0.1) is None, "the other times are dropped"


async def test_a_past_time_means_now(queue):
    queue.add_later(A, -5)
    assert await queue.take() == A


def test_back_off_doubles_up_to_the_longest_and_success_resets_it(queue):
    async def waits(key: JobKey, number: int, *limits: float) -> list[float]:
        """Return the waits after failures, each of which follows when the wait for it is over."""
        found = []
        for _ in range(number):
            found.append(queue.failed(key, *limits))
            await asyncio.sleep(found[-1])
        return found

    async def story():
        assert await waits(A, 5, 1.0, 5.0) == pytest.approx([1, 2, 4, 5, 5])
        assert queue.failed(B, 1.0, 5.0) == 1
        queue.went_well(A)
        assert (await waits(A, 2000, 1.0, 5.0))[::1999] == [1, 5]
        assert (await waits(C, 9, 0.01, 0.05))[-1] == 0.05
        assert await waits(C, 2, 1.0, 5.0) == pytest.approx([1, 2]), "many short ones make none long"
        queue.conflicted(C, 0.01, 0.05)
        assert queue.failed(C, 1.0, 5.0) == pytest.approx(4), "and a short one makes none short that was long already"
        queue.clear()

    in_virtual_time(story())


def test_a_job_that_events_make_fail_many_times_waits_no_longer_than_it_has_failed(queue):
    async def story():
        for _ in range(10):
            assert queue.failed(A, 1.0, 300.0) <= 1.0 + clock()
            await asyncio.sleep(0.5)
        assert queue.failed(A, 1.0, 300.0) == pytest.approx(6.0)
        await asyncio.sleep(1000)
        assert queue.failed(A, 1.0, 300.0) == 300

    in_virtual_time(story())


async def test_a_failed_key_comes_back(queue):
    queue.failed(A, 0.02, 1.0)
    assert await take(queue) == A


async def test_cleared_keys_are_not_returned(queue):
    queue.add_later(A, 0.02)
    queue.add(B)
    queue.failed(C, 0.02, 1.0)
    queue.clear()
    assert len(queue) == 0
    assert await take(queue, 0.05) is None
    assert queue.failed(C, 1.0, 5.0) == 1
    queue.conflicted(A, 5.0, 5.0)
    queue.clear()
    queue.add(A)
    assert await take(queue, 0.05) == A, "later keys are not delayed"
    queue.add(A)
    queue.clear()
    queue.done(A)
    assert await take(queue, 0.05) is None, "a key that was being processed, and was added meanwhile"


async def test_a_reconcile_without_a_next_time_leaves_no_timer(queue):
    for number in range(100):
        key = JobKey("ml", "TFJob", f"job-{number}")
        queue.add_later(key, 1e10)
        queue.add(key)
        assert await queue.take() == key
        queue.done(key)
    assert queue._later == {}


async def test_a_time_set_during_a_reconcile_counts(queue):
    queue.add(A)
    await queue.take()
    queue.add_later(A, 0.05)
    queue.done(A)
    assert await take(queue) == A


async def test_a_cancelled_take_loses_no_key(queue):
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    waiting.cancel()
    queue.add(A)
    await asyncio.gather(waiting, return_exceptions=True)
    assert await take(queue) == A


async def crowd(random: Random, queue: WorkQueue) -> tuple[dict[JobKey, int], dict[JobKey, int]]:
    """Return for each key its last event and its last reconcile, after many events with three workers."""
    added: dict[JobKey, int] = {}
    reconciled: dict[JobKey, int] = {}
    held: set[JobKey] = set()

    async def work() -> None:
        while True:
            key = await queue.take()
            assert key not in held, "two workers on a key"
            held.add(key)
            reconciled[key] = added[key]
            await asyncio.sleep(random.choice([0, 0.001, 0.05]))
            held.discard(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for event in range(60):
        key = random.choice([A, B, C, JobKey("other", "TFJob", "a")])
        added[key] = event
        queue.add_later(key, random.choice([0, 0, 0.03]))
        await asyncio.sleep(random.choice([0, 0, 0.01]))
    await asyncio.sleep(10)
    for worker in workers:
        worker.cancel()
    for result in await asyncio.gather(*workers, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result
    return added, reconciled


@given(st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_every_event_is_followed_by_a_reconcile(random):
    added, reconciled = in_virtual_time(crowd(random, WorkQueue(lambda _seconds: None)))
    assert reconciled == added


def test_events_shorten_the_back_off_after_a_conflict_only_a_little(queue):
    async def story():
        queue.add(A)
        await queue.take()
        assert [queue.conflicted(A, 1.0, 3.0) for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]
        queue.done(A)
        queue.add(A)
        assert await take(queue, 0.9) is None
        queue.add(A)
        assert await take(queue, MIN_WAIT * 3.0 - 1.0) is None
        queue.add(A)
        assert await take(queue, 0.2) == A
        queue.went_well(A)
        queue.done(A)
        queue.add(A)
        assert await take(queue, 0.1) == A, "a success resets it"

    in_virtual_time(story())


def test_after_a_conflict_the_next_reconcile_needs_no_event(queue):
    async def story():
        queue.add(A)
        await queue.take()
        queue.conflicted(A, 1.0, 3.0)
        queue.done(A)
        assert await take(queue, 0.95) is None
        assert await take(queue, 0.1) == A

    in_virtual_time(story())


def test_a_job_that_has_the_name_of_one_that_was_being_reconciled_does_not_wait_for_its_back_off(queue):
    async def story():
        queue.add(A)
        await queue.take()
        queue.failed(A, 1.0, 20.0)
        queue.left(A)
        queue.add(A)
        assert queue.conflicted(A, 10.0, 20.0) == 0
        queue.done(A)
        assert await take(queue, 0.05) == A
        assert queue.failed(A, 1.0, 20.0) == 1

    in_virtual_time(story())

"""Requests of a job run concurrently; a definite error of one stops those of the same kind that have not started."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.client import Forbidden, NameConflict, Unavailable
from trainshed.client.flow_control import run_concurrently, run_with_slow_start


def tasks(outcomes, done):
    """Return tasks that record their number and end with the given outcomes."""

    def task(number, outcome):
        async def run():
            done.append(number)
            await asyncio.sleep(0)
            if outcome:
                raise outcome

        return run

    return [task(number, outcome) for number, outcome in enumerate(outcomes)]


async def test_all_tasks_run_without_errors():
    done = []
    assert await run_with_slow_start(tasks([None] * 100, done)) == []
    assert sorted(done) == list(range(100))


async def test_a_definite_error_of_the_first_task_stops_all_others():
    done = []
    errors = await run_with_slow_start(tasks([Forbidden("quota")] * 100, done))
    assert (len(errors), done) == (1, [0])


async def test_a_name_conflict_of_the_first_task_does_not_stop_the_others():
    done = []
    errors = await run_with_slow_start(tasks([NameConflict("one"), *[None] * 9], done))
    assert (len(errors), len(done)) == (1, 10)


@pytest.mark.parametrize("taken", [{0, 1, 2}, set(range(10)), {3}, {0, 50, 98}])
async def test_names_that_are_taken_do_not_keep_other_pods_from_being_created(taken):
    done = []
    await run_with_slow_start(tasks([NameConflict("one") if n in taken else None for n in range(100)], done))
    assert sorted(done) == list(range(100))


async def test_where_all_names_are_taken_few_are_tried():
    done = []
    await run_with_slow_start(tasks([NameConflict("one")] * 100, done))
    assert len(done) <= 33


@pytest.mark.parametrize("accepted", [0, 1, 2, 3, 7, 20, 40, 150])
async def test_a_quota_refuses_at_most_one_more_than_it_accepts_and_32(accepted):
    left, done = [None] * accepted, []

    async def task() -> None:
        await asyncio.sleep(0)
        done.append(bool(left))
        if not left:
            raise Forbidden("quota")
        left.pop()

    errors = await run_with_slow_start([task] * 200)
    assert done.count(True) == accepted
    assert len(errors) == done.count(False) <= min(accepted + 1, 32)


@pytest.mark.parametrize(("known", "rounds"), [(0, 8), (1, 8), (16, 5), (300, 5), (5, 6)])
def test_requests_double_up_to_32_at_a_time_from_those_that_are_known_to_be_accepted(known, rounds):
    async def story() -> float:
        began = clock()
        assert await run_with_slow_start([partial(asyncio.sleep, 1)] * 100, known=known) == []
        return clock() - began

    assert in_virtual_time(story()) == pytest.approx(rounds)


async def test_a_definite_no_later_stops_those_that_have_not_begun():
    done = []
    await run_with_slow_start(tasks([None, *[Forbidden("quota")] * 99], done), width=4)
    assert len(done) <= 5


async def test_an_unknown_outcome_of_the_first_task_stops_all_others():
    done = []
    errors = await run_with_slow_start(tasks([Unavailable("?"), None], done))
    assert (len(errors), done) == (1, [0])


async def test_a_later_unknown_outcome_stops_no_task():
    done = []
    errors = await run_with_slow_start(tasks([None, Unavailable("?"), None, None], done), width=1)
    assert (len(errors), done) == (1, [0, 1, 2, 3])


async def test_no_tasks_return_no_errors():
    assert await run_with_slow_start([]) == []


async def test_calls_run_concurrently_and_the_first_in_the_callers_task():
    all_run, tasks = asyncio.Barrier(3), []

    async def call(number: int) -> int:
        tasks.append(asyncio.current_task())
        await all_run.wait()
        return number

    assert await run_concurrently([partial(call, number) for number in range(3)]) == [0, 1, 2]
    assert tasks[0] is asyncio.current_task()
    assert len(set(tasks)) == 3


@pytest.mark.parametrize("broken", [0, 1])
async def test_an_internal_error_of_one_call_ends_the_others(broken: int):
    ended = []

    async def call(number: int) -> None:
        try:
            await asyncio.sleep(0 if number == broken else 60)
            raise ZeroDivisionError
        finally:
            ended.append(number)

    with pytest.raises(ExceptionGroup):
        await run_concurrently([partial(call, number) for number in range(3)])
    assert sorted(ended) == [0, 1, 2]


async def test_a_cancelled_call_cancels_the_caller():
    async def call(number: int) -> None:
        await asyncio.sleep(0)
        if number:
            asyncio.current_task().cancel()  # as kopf does at its end, with every task younger than itself
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await run_concurrently([partial(call, number) for number in range(2)])

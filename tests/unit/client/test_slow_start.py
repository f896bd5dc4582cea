"""Requests of a job run concurrently; a definite error of one stops those of the same kind that have not started."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

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

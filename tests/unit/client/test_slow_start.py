"""A definite error of one request stops those of the same kind that have not started."""

from __future__ import annotations

import asyncio

from trainshed.client import Forbidden, NameConflict, Unavailable
from trainshed.client.flow_control import run_with_slow_start


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

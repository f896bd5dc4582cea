"""Many requests of one kind: a definite no keeps those that have not begun from it."""

from __future__ import annotations

import asyncio

from trainshed.cluster import Denied, NameTaken, Unavailable
from trainshed.cluster.lanes import carefully


def tasks(outcomes, done):
    """Tasks that note their number, and end as told."""

    def task(number, outcome):
        async def run():
            done.append(number)
            await asyncio.sleep(0)
            if outcome:
                raise outcome

        return run

    return [task(number, outcome) for number, outcome in enumerate(outcomes)]


async def test_all_tasks_run_when_all_goes_well():
    done = []
    assert await carefully(tasks([None] * 100, done)) == []
    assert sorted(done) == list(range(100))


async def test_a_definite_no_to_the_first_is_the_last_request():
    done = []
    errors = await carefully(tasks([Denied("quota")] * 100, done))
    assert (len(errors), done) == (1, [0])


async def test_a_first_whose_name_is_taken_does_not_keep_the_others_from_theirs():
    done = []
    errors = await carefully(tasks([NameTaken("one"), *[None] * 9], done))
    assert (len(errors), len(done)) == (1, 10)


async def test_a_definite_no_later_stops_those_that_have_not_begun():
    done = []
    await carefully(tasks([None, *[Denied("quota")] * 99], done), width=4)
    assert len(done) <= 5


async def test_an_unknown_outcome_of_the_first_waits_for_another_look():
    done = []
    errors = await carefully(tasks([Unavailable("?"), None], done))
    assert (len(errors), done) == (1, [0])


async def test_an_unknown_outcome_later_stops_nobody():
    done = []
    errors = await carefully(tasks([None, Unavailable("?"), None, None], done), width=1)
    assert (len(errors), done) == (1, [0, 1, 2, 3])


async def test_nothing_to_do_is_done():
    assert await carefully([]) == []

"""Bounds on requests in flight."""

from __future__ import annotations

import asyncio

import pytest

from trainshed.cluster import Denied, Throttled, Unavailable
from trainshed.cluster.lanes import Lane, Pace, carefully


async def test_no_more_run_at_once_than_the_lane_is_wide():
    lane, most, now = Lane(3, Pace()), 0, 0

    async def call():
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    await asyncio.gather(*(lane.run(call) for _ in range(20)))
    assert most == 3


async def test_a_lane_halves_when_the_server_groans_and_widens_slowly_again():
    lane = Lane(16, Pace())

    async def groan():
        raise Throttled("too much")

    async def fine():
        return 1

    with pytest.raises(Throttled):
        await lane.run(groan)
    assert lane.width == 8
    for _ in range(8):
        assert await lane.run(fine) == 1
    assert lane.width in {8, 9}
    for _ in range(200):
        await lane.run(fine)
    assert lane.width == 16


async def test_a_lane_never_closes():
    lane = Lane(2, Pace())

    async def groan():
        raise Throttled("too much")

    for _ in range(10):
        with pytest.raises(Throttled):
            await lane.run(groan)
    assert lane.width == 1


async def test_a_pace_keeps_to_its_rate_after_a_burst():
    pace, clock = Pace(100, 5), asyncio.get_running_loop().time
    began = clock()
    for _ in range(5):
        await pace.wait()
    assert clock() - began < 0.04
    for _ in range(10):
        await pace.wait()
    assert clock() - began >= 0.09


async def test_without_a_rate_there_is_no_wait():
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(1000):
        await Pace().wait()
    assert clock() - began < 0.5


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

"""The event loop pauses while data arrives often, after it has done what the data is for."""

from __future__ import annotations

import asyncio

import pytest

from trainshed.client import coalescing
from trainshed.client.coalescing import LONGEST, SHARE, Coalescing


class Clock:
    """A clock that only sleeping moves; records how long was slept."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(coalescing, "time", found)
    return found


async def arrive(found: Coalescing, pieces: int = 1) -> None:
    """Let pieces of data arrive together and the event loop handle them."""
    for _ in range(pieces):
        found.arrived()
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_pauses_for_a_share_of_the_response_time_once_for_all_that_arrives_together(clock):
    found = Coalescing()
    for _ in range(200):
        found.responded(0.008)
    await arrive(found)
    assert clock.slept == [], "the first data after a quiet time is handled at once"
    clock.now += 0.0005
    await arrive(found, 3)
    assert clock.slept == [pytest.approx(0.008 * SHARE - 0.0005)]
    clock.now += 0.008 * SHARE
    await arrive(found)
    assert len(clock.slept) == 1


async def test_a_pause_is_never_long_and_there_is_none_before_the_first_response(clock):
    found = Coalescing()
    for _ in range(2):
        await arrive(found)
    assert clock.slept == []
    for _ in range(200):
        found.responded(30)
    await arrive(found)
    assert clock.slept == [pytest.approx(LONGEST)]


async def test_the_next_request_is_sent_before_a_pause(clock, monkeypatch):
    found, done, response = Coalescing(), [], asyncio.get_running_loop().create_future()
    monkeypatch.setattr(clock, "sleep", lambda _seconds: done.append("paused"))

    async def ask() -> None:
        await response

    async def reconcile() -> None:
        await asyncio.gather(asyncio.ensure_future(ask()))
        done.append("sent")

    found.responded(1)
    await arrive(found)
    work = asyncio.ensure_future(reconcile())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    found.arrived()
    response.set_result(None)
    await work
    await arrive(found, 0)
    assert done == ["sent", "paused"]

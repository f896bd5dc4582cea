"""The loop in virtual time: order, time, deadlocks, and processes that freeze or vanish between two steps."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator

import pytest

from simulation.loop import PROCESS, Deadlock, Endless, VirtualLoop


def spawn(loop: VirtualLoop, process: str, coroutine) -> asyncio.Task:
    context = contextvars.copy_context()
    context.run(PROCESS.set, process)
    return context.run(loop.create_task, coroutine)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(most=1000)
    yield loop
    loop.close()


def test_time_passes_only_while_everybody_waits(loop):

    async def story():
        began = loop.time()
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(5))
        return loop.time() - began

    assert loop.run_until_complete(story()) == 3600


def test_what_is_due_at_the_same_time_comes_in_the_order_in_which_it_was_asked_for(loop):
    told = []
    for number in range(5):
        loop.call_later(1, told.append, number)
    loop.call_later(0.5, told.append, "first")
    loop.run_for(2)
    assert told == ["first", 0, 1, 2, 3, 4]
    assert loop.time() == 1002


def test_asyncio_is_at_home(loop):

    async def story():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        queue = asyncio.Queue()
        loop.call_later(2, queue.put_nowait, "x")
        return await queue.get(), loop.time()

    assert loop.run_until_complete(story()) == ("x", 1005)


def test_to_wait_for_what_nobody_will_do_is_a_deadlock(loop):
    with pytest.raises(Deadlock):
        loop.run_until_complete(asyncio.Event().wait())


def test_to_be_busy_without_end_is_noticed(loop):

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(Endless):
        loop.run_for(1)


def test_an_error_that_nobody_waits_for_is_kept(loop):
    loop.call_soon(lambda: 1 / 0)
    loop.run_for(1)
    assert isinstance(loop.errors[0]["exception"], ZeroDivisionError)


def test_who_vanishes_does_nothing_more_and_the_others_go_on(loop):
    told = []

    async def ticks(name: str) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                told.append(name)
        finally:
            await asyncio.sleep(0)
            told.append(f"{name} says goodbye")

    spawn(loop, "a", ticks("a"))
    spawn(loop, "b", ticks("b"))
    loop.run_for(1.5)
    loop.vanish("a")
    assert told == ["a", "b", "a says goodbye"], "at once, while no time passes"
    loop.run_for(2)
    assert told[3:] == ["b", "b"]


def test_who_is_frozen_is_late_and_loses_nothing(loop):
    told = []

    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)
            told.append(loop.time())

    spawn(loop, "a", ticks())
    loop.run_for(1)
    loop.freeze("a")
    loop.run_for(60)
    assert told == [1001]
    loop.thaw("a")
    loop.run_for(0)
    assert told == [1001, 1061], "its timer was due long ago, and time has gone on without it"

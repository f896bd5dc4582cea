"""The event loop in virtual time: order, deadlocks, errors, and processes that are frozen or killed.

The tests that run in it use timeouts, queues and sockets: see the informer's in tests/unit/client.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator

import pytest

from support.virtual_time import PROCESS, Deadlock, TooManySteps, VirtualTimeLoop


def spawn(loop: VirtualTimeLoop, process: str, coroutine) -> asyncio.Task:
    context = contextvars.copy_context()
    context.run(PROCESS.set, process)
    return context.run(loop.create_task, coroutine)


@pytest.fixture
def loop() -> Iterator[VirtualTimeLoop]:
    loop = VirtualTimeLoop(max_steps=1000)
    yield loop
    loop.close()


def test_timers_that_are_due_at_the_same_time_run_in_the_order_in_which_they_were_set(loop):
    ticked = []
    for number in range(5):
        loop.call_later(1, ticked.append, number)
    loop.call_later(0.5, ticked.append, "first")
    loop.run_for(2)
    assert ticked == ["first", 0, 1, 2, 3, 4]
    assert loop.time() == 1002


def test_a_wait_without_end_is_a_deadlock(loop):
    with pytest.raises(Deadlock):
        loop.run_until_complete(asyncio.Event().wait())


def test_a_loop_without_end_is_detected(loop):

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(TooManySteps):
        loop.run_for(1)


def test_an_error_that_nothing_awaits_is_kept(loop):
    loop.call_soon(lambda: 1 / 0)
    loop.run_for(1)
    assert isinstance(loop.errors[0]["exception"], ZeroDivisionError)


def test_a_killed_process_ends_at_once_and_the_others_continue(loop):
    ticked = []

    async def ticks(name: str) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                ticked.append(name)
        finally:
            await asyncio.sleep(0)
            ticked.append(f"{name} ends")

    spawn(loop, "a", ticks("a"))
    spawn(loop, "b", ticks("b"))
    loop.run_for(1.5)
    loop.kill("a")
    assert ticked == ["a", "b", "a ends"], "at once, while no time passes"
    loop.run_for(2)
    assert ticked[3:] == ["b", "b"]


def test_a_frozen_process_is_late_and_loses_nothing(loop):
    ticked = []

    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)
            ticked.append(loop.time())

    spawn(loop, "a", ticks())
    loop.run_for(1)
    loop.freeze("a")
    loop.run_for(60)
    assert ticked == [1001]
    loop.thaw("a")
    loop.run_for(0)
    assert ticked == [1001, 1061], "its timer was due long ago, and time has gone on without it"

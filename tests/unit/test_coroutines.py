"""A signal interrupts a coroutine, but neither what makes its event loop nor what closes it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from trainshed.coroutines import HELD, run_coroutine


def handlers() -> list:
    return [signal.getsignal(number) for number in HELD]


def test_a_coroutine_has_a_result_and_the_usual_handlers():
    usual = handlers()

    async def work() -> list:
        return handlers()

    assert run_coroutine(work) == usual
    assert handlers() == usual
    found: list = []
    other = threading.Thread(target=lambda: found.append(run_coroutine(work)))
    other.start()
    other.join()
    assert found == [usual]


@pytest.mark.parametrize("where", ["new_event_loop", "set_event_loop"])
def test_a_signal_while_the_loop_is_made_or_closed_waits_for_it(monkeypatch, where):
    """`asyncio.run` calls `set_event_loop` first with the loop, and at last with None."""
    begun, done, usual, function = [], [], handlers(), getattr(asyncio.events, where)

    def interrupted(*arguments):
        hit = where == "new_event_loop" or arguments == (None,)
        if hit:
            os.kill(os.getpid(), signal.SIGINT)
        found = function(*arguments)
        if hit:
            done.append(where)
        return found

    async def work() -> None:
        begun.append(asyncio.get_running_loop())

    async def outer() -> None:
        try:
            await work()
        finally:
            begun.append(asyncio.get_running_loop())

    monkeypatch.setattr(asyncio.events, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_coroutine(outer)
    assert done == [where]
    assert begun == ([] if where == "new_event_loop" else [begun[0]] * 2)
    assert handlers() == usual


def test_a_signal_in_the_coroutine_is_handled_there():
    caught = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(9)
        except KeyboardInterrupt:
            caught.append(True)
            raise

    with pytest.raises(KeyboardInterrupt):
        run_coroutine(work)
    assert caught == [True]

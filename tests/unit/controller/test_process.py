"""The process around the controller: errors that no task awaits, kopf, garbage collection and the wall clock."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import time
import weakref
from types import SimpleNamespace

import pytest

from trainshed import process
from trainshed.controller import kopf_shim, manager
from trainshed.controller.kopf_shim import supervise
from trainshed.controller.manager import exit_after_clock_step, freeze_gc
from trainshed.process import handle_loop_error

#: The error of uvloop when a connection breaks during a write, and during the TLS handshake.
BROKEN_WRITE, RESET = IndexError("deque index out of range"), ConnectionResetError("Connection reset by peer")


@pytest.mark.parametrize(
    ("context", "level"),
    [
        ({"message": "Fatal error on SSL protocol", "transport": None, "exception": BROKEN_WRITE}, "WARNING"),
        ({"message": "Future exception was never retrieved", "future": None, "exception": RESET}, "WARNING"),
        ({"message": "Future exception was never retrieved", "future": None, "exception": BROKEN_WRITE}, "ERROR"),
        ({"message": "Task exception was never retrieved", "exception": BROKEN_WRITE}, "ERROR"),
    ],
)
async def test_a_lost_connection_is_one_warning_and_other_errors_are_errors(context, level, caplog):
    stuck = asyncio.Event()
    with caplog.at_level(logging.WARNING):
        handle_loop_error(stuck, asyncio.get_running_loop(), context)
    (record,) = caplog.records
    assert (record.levelname, bool(record.exc_info)) == (level, level == "ERROR")
    assert str(context["exception"]) in caplog.text
    assert ("never retrieved" in caplog.text) == (level == "ERROR"), "that is what asyncio says of mistakes"
    assert not stuck.is_set()


async def test_objects_that_kopf_drops_after_its_start_are_collected(monkeypatch):
    class Event:
        """An event in a reference cycle."""

    monkeypatch.setattr(manager, "GC_FREEZE_DELAY", 0.2)
    ready, event = asyncio.Event(), Event()
    event.itself, there = event, weakref.ref(event)
    ready.set()
    frozen = asyncio.create_task(freeze_gc(ready))
    try:
        await asyncio.sleep(0.1)
        assert gc.get_freeze_count() > 0
        del event
        gc.collect()
        assert there() is not None, "frozen objects are not scanned"
        await frozen
        assert there() is None
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("order", ["synced and stopped", "stopped and never synced"])
async def test_kopf_starts_only_after_the_cache_sync(monkeypatch, order):
    begun = asyncio.Event()

    async def run_kopf(*, stop_flag: asyncio.Event, **_rest: object) -> None:
        begun.set()
        await stop_flag.wait()

    monkeypatch.setattr(kopf_shim.kopf, "operator", run_kopf)
    synced, over, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(supervise(kopf_shim.kopf.OperatorRegistry(), (), (synced, over, stop)))
    await asyncio.sleep(0.1)
    assert not begun.is_set()
    if order.startswith("synced"):
        synced.set()
        await asyncio.wait_for(begun.wait(), 5)
    stop.set()
    await asyncio.wait_for(task, 5)
    assert begun.is_set() == order.startswith("synced")


async def test_a_step_of_the_wall_clock_ends_the_process_with_an_error(monkeypatch, caplog):
    monkeypatch.setattr(process, "LASTING", 0.05)
    monkeypatch.setattr(process, "COMPARED", 0.01)
    ahead = [0.0]
    own = process.Clock(lambda: time.monotonic() + ahead[0], time.monotonic)
    operator = SimpleNamespace(over=asyncio.Event(), broken=False)
    watching = asyncio.create_task(exit_after_clock_step(own, operator))
    await asyncio.sleep(0.2)
    assert not watching.done()
    ahead[0] = 3600.0
    await asyncio.wait_for(operator.over.wait(), 5)
    assert operator.broken, "the exit code causes a restart"
    assert "the wall clock stepped by +3600 s" in caplog.text


def test_the_soft_limit_of_open_files_is_raised_as_far_as_it_may():
    program = """
import resource
from trainshed.process import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 900))
for number in (200, 600, 5000):
    allow_open_files(number)
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.splitlines() == ["256 900", "600 900", "900 900"]

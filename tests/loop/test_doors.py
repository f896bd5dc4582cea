"""Whoever asks over HTTP is told the truth: alive, ready, and the meters."""

from __future__ import annotations

import asyncio
import socket
import time

import aiohttp
import pytest

from hasty import hastily
from trainshed.loop.doors import LATE, Doors, Pulse


def free_address() -> str:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{door.getsockname()[1]}"


async def ask(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


async def test_the_doors_say_what_they_are_told():
    health, metrics = free_address(), free_address()
    problems = ["pods have not been listed yet"]
    pulse = Pulse()
    doors = Doors(pulse, lambda: problems[-1], lambda: b"meters 1\n")
    await doors.open(health, metrics)
    try:
        assert await ask(health, "/readyz") == (503, "pods have not been listed yet\n")
        problems.append("")
        assert await ask(health, "/readyz") == (200, "ok\n")
        assert await ask(health, "/healthz") == (200, "ok\n")
        pulse.lag = LATE + 1
        assert await ask(health, "/healthz") == (500, "the event loop is 6.0 s late\n")
        assert await ask(metrics, "/metrics") == (200, "meters 1\n")
        assert (await ask(metrics, "/healthz"))[0] == 404
    finally:
        await doors.close()
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(health, "/healthz")


async def test_a_door_without_an_address_stays_shut():
    doors = Doors(Pulse(), lambda: "", lambda: b"")
    await doors.open("", "")
    await doors.close()


async def test_an_address_that_is_in_use_is_named():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        doors = Doors(Pulse(), lambda: "", lambda: b"")
        with pytest.raises(OSError, match=str(door.getsockname()[1])):
            await doors.open(f"127.0.0.1:{door.getsockname()[1]}", "")
        await doors.close()


async def test_the_pulse_feels_a_loop_that_is_held_up():
    pulse = Pulse()
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(0.01)
    time.sleep(0.6)
    await asyncio.sleep(0.01)
    assert pulse.lag > 0.2
    task.cancel()


def test_the_pulse_of_a_loop_that_is_not_is_calm():
    async def story():
        pulse = Pulse()
        task = asyncio.create_task(pulse.run())
        await asyncio.sleep(10)
        assert pulse.lag < 0.001
        task.cancel()

    hastily(story())

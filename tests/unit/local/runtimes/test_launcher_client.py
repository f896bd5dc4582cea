"""The program that starts containers, and the client that talks to it, never wait for each other."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from trainshed.local.runtimes import launcher_client
from trainshed.local.runtimes.launcher_client import LauncherClient
from trainshed.local.runtimes.protocol import KILLED, StartFailed

SOON = 60


@pytest.fixture
async def client() -> AsyncIterator[LauncherClient]:
    found = LauncherClient("processes")
    await found.open()
    yield found
    await found.close()


def message(*words: str) -> dict:
    return {"argv": [*words], "env": {"PATH": os.environ["PATH"]}, "cwd": "/"}


@pytest.mark.slow
async def test_a_thousand_containers_start_at_the_same_time(client):
    async def one() -> int:
        return await (await client.start(message("true"), {})).wait()

    async with asyncio.timeout(SOON):
        assert await asyncio.gather(*(one() for _ in range(1000))) == [0] * 1000


@pytest.mark.slow
async def test_requests_wait_without_blocking_while_the_launcher_does_not_read(client):
    os.kill(client._process.pid, signal.SIGSTOP)
    long = {**message("true"), "env": {"LONG": "x" * 100_000}}
    starts = [asyncio.create_task(client.start(long, {})) for _ in range(100)]
    for number in range(1000):
        client.send({"op": "signal", "id": f"absent-{number}", "number": 15})
    await asyncio.sleep(0.1)
    assert not any(start.done() for start in starts)
    os.kill(client._process.pid, signal.SIGCONT)
    async with asyncio.timeout(SOON):
        assert [await container.wait() for container in await asyncio.gather(*starts)] == [0] * 100


async def test_a_socket_listens_in_the_network_of_the_launcher(client):
    with await client.listen("127.0.0.1") as listener, socket.create_connection(listener.getsockname()):
        assert not listener.get_inheritable()
        listener.accept()[0].close()
    with pytest.raises(StartFailed, match="assign requested address"):
        await client.listen("198.51.100.1")
    container = await client.start(message("true"), {})
    assert await container.wait() == 0


async def test_a_stopped_launcher_is_ended_with_its_containers(client):
    container = await client.start(message("sleep", "99"), {})
    os.kill(client._process.pid, signal.SIGSTOP)
    async with asyncio.timeout(SOON):
        await client.close()
    assert await container.wait() == KILLED


async def test_a_launcher_that_is_killed_takes_its_containers_with_it(client):
    container = await client.start(message("sh", "-c", "echo begun; exec sleep 99"), {})
    assert await container.output.readline() == b"begun\n"
    os.kill(client._process.pid, signal.SIGKILL)
    async with asyncio.timeout(SOON):
        assert await container.wait() == KILLED
        assert await container.output.read() == b"", "the process has ended"
    assert client.problem == launcher_client.ENDED
    with pytest.raises(StartFailed, match="ended unexpectedly"):
        await client.start(message("true"), {})


async def test_what_is_being_started_when_the_launcher_ends_has_failed_to_start(client):
    os.kill(client._process.pid, signal.SIGSTOP)
    starts = [asyncio.create_task(client.start(message("true"), {})) for _ in range(100)]
    await asyncio.sleep(0.1)
    os.kill(client._process.pid, signal.SIGKILL)
    async with asyncio.timeout(SOON):
        ends = await asyncio.gather(*starts, return_exceptions=True)
    assert {(type(end), str(end)) for end in ends} == {(StartFailed, launcher_client.ENDED)}


async def test_a_launcher_that_does_not_answer_is_a_problem(client, monkeypatch):
    monkeypatch.setattr(launcher_client, "PING", 0.05)
    monkeypatch.setattr(launcher_client, "SILENCE", 0.3)
    client._ping()
    await asyncio.sleep(0.5)
    assert not client.problem, "it answers"
    container = await client.start(message("sleep", "99"), {})
    os.kill(client._process.pid, signal.SIGSTOP)
    async with asyncio.timeout(SOON):
        assert await container.wait() == KILLED
    assert client.problem == launcher_client.SILENT


async def test_a_launcher_that_does_not_start_is_given_up_with_what_was_awaited(monkeypatch):
    assert launcher_client.START >= launcher_client.SILENCE, "a start needs more of a busy machine than an answer"
    monkeypatch.setattr(launcher_client, "START", 0.3)
    client = LauncherClient("processes", ("sh", "-c", "exec sleep 99"))
    with pytest.raises(StartFailed, match=r"has not started within 120 s; .*: run the jobs again when less runs on it"):
        await client.open()
    await client.close()


@pytest.mark.parametrize("wrong", [{"env": {"NAME": "nul\0"}}, {"argv": ["tr\0ue"]}, {"cwd": "/nowhere"}])
async def test_what_no_program_can_have_is_reported(client, wrong):
    with pytest.raises(StartFailed):
        await client.start({**message("true"), **wrong}, {})

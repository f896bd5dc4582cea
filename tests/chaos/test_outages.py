"""The API server or its store dies at a write, freezes, or hangs up on everybody; what was begun is ended, once."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from support.jobs import pytorchjob
from support.planes import ready_control_plane
from support.user_client import Refused
from testbed.control_plane import ControlPlane
from trainshed.runtime import EventLoop

from .fixtures import clock, scenery
from .play import Play, Stage, stage
from .proxy import LOST, Forward
from .request import Answer, Request
from .test_crashes import made

__all__ = ["clock", "scenery"]
pytestmark = pytest.mark.apiserver

MEMBERS = ("master-0", "worker-0", "worker-1")


@pytest.fixture(scope="module")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that nobody else needs."""
    with ready_control_plane(tmp_path_factory.mktemp("frail")) as plane:
        yield plane


def kill_apiserver(plane: ControlPlane) -> None:
    plane.kill_apiserver()


def kill_etcd(plane: ControlPlane) -> None:
    etcd, *_ = plane.processes
    etcd.stop(signal.SIGKILL)


def come_back(plane: ControlPlane) -> None:
    plane.start_etcd()
    plane.start_apiserver()


@pytest.mark.parametrize("number", [3, 8, 10])
@pytest.mark.parametrize("strike", [kill_apiserver, kill_etcd])
def test_a_server_may_die_at_a_write(
    clock: asyncio.Runner, scenery: Stage, frail: ControlPlane, strike: Callable[[ControlPlane], None], number: int
):
    """At the third, a pod is being made; at the eighth the job says that it runs; at the tenth it is cleaned up."""
    clock.run(dies_at(scenery, frail, strike, number))


async def dies_at(scenery: Stage, plane: ControlPlane, strike: Callable[[ControlPlane], None], number: int) -> None:
    play = Play(scenery, pytorchjob("a", policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2))
    struck: list[asyncio.Task[None]] = []
    group = asyncio.TaskGroup()

    async def at(request: Request, forward: Forward) -> Answer:
        if request.number != number:
            return await forward()
        on_its_way = asyncio.create_task(forward())
        await asyncio.sleep(0)
        strike(plane)
        struck.append(group.create_task(asyncio.to_thread(come_back, plane)))
        return await on_its_way

    play.porter.on_write = at
    play.counted = 0
    async with group, play:  # if the server does not come back there is nothing to wait for
        await play.scene.create()
        await persistently(lambda: play.scene.running(*MEMBERS))
        await persistently(lambda: play.scene.end("master-0", 0))
        await persistently(lambda: play.scene.says("Succeeded"))
        await play.scene.until("nothing is left", lambda: not (play.scene.pods or play.scene.services))
        await asyncio.gather(*struck)
        await play.rest()
        assert len(play.keeper.lives) == 1, "the operator may not die of it"
    assert struck
    assert made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert play.violations() == ()


async def persistently(work: Callable[[], Awaitable[None]]) -> None:
    """What a user does while the server is away."""
    for _ in range(60):
        try:
            return await work()
        except TimeoutError:  # an OSError as well, but one that says that the server was there and nothing came of it
            raise
        except (aiohttp.ClientError, OSError, Refused):
            await asyncio.sleep(0.5)
    return await work()


def test_a_store_that_freezes_costs_time_and_at_the_most_the_lease(
    clock: asyncio.Runner, scenery: Stage, frail: ControlPlane
):
    clock.run(freezes(scenery, frail))


async def freezes(scenery: Stage, plane: ControlPlane) -> None:
    """Nothing can be stored for 20 s: longer than the Lease lasts, so that its holder must have stepped down."""
    job = pytorchjob("a", policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2)
    play = Play(scenery, job, "--leader-elect", "--lease-name=mine")
    play.counted = 0
    etcd, *_ = plane.processes
    async with play:
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        os.kill(etcd.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(20)
            log = play.keeper.life.log.read_text()
        finally:
            os.kill(etcd.pid, signal.SIGCONT)
        assert "lease mine: lost" in log, log[-2000:]
        await persistently(lambda: play.scene.end("master-0", 0))
        await persistently(lambda: play.scene.says("Succeeded"))
        await play.scene.until("nothing is left", lambda: not (play.scene.pods or play.scene.services))
        await play.rest()
        assert len(play.keeper.lives) == 1
    assert made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert play.violations() == ()


def test_all_connections_may_be_cut_again_and_again(clock: asyncio.Runner, scenery: Stage):
    clock.run(is_cut(scenery))


async def is_cut(scenery: Stage) -> None:
    """Every third write, and every other read, is hung up on, half of them once they were carried out."""
    play = Play(scenery, pytorchjob("a", policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2))
    count = 0

    async def cut(_request: Request, forward: Forward) -> Answer:
        nonlocal count
        count += 1
        if count % 3:
            return await forward()
        if count % 2:
            await forward()
        return LOST

    play.porter.on_write = play.porter.on_read = cut
    play.counted = 0
    async with play:
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        scenery.proxy.hang_up()
        await play.scene.end("master-0", 0)
        scenery.proxy.hang_up()
        await play.scene.says("Succeeded")
        await play.scene.until("nothing is left", lambda: not (play.scene.pods or play.scene.services))
        await play.rest()
        assert len(play.keeper.lives) == 1
    assert made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert play.violations(faults=count) == ()


def test_whoever_looks_on_may_go_while_the_server_hangs(frail: ControlPlane, tmp_path: Path):
    """A connection that outlived its loop would be told of as a warning, and that is an error."""
    _, apiserver, *_ = frail.processes

    async def look_on() -> None:
        async with stage(frail, tmp_path):
            await asyncio.sleep(1)
            os.kill(apiserver.pid, signal.SIGSTOP)

    try:
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(look_on())
    finally:
        os.kill(apiserver.pid, signal.SIGCONT)
    gc.collect()

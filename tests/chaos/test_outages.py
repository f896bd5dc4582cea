"""The API server or etcd dies at a write, freezes, or closes all connections; actions in flight complete once."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from support.api_request import Answer, Request
from support.fault_proxy import LOST, Forward
from support.jobs import pytorchjob
from support.planes import ready_control_plane
from support.sampling import sampled
from support.user_client import Refused
from testbed.control_plane import ControlPlane
from trainshed.event_loop import EventLoop

from .run import Environment, Run
from .run import environment as environment_on
from .test_crashes import made

pytestmark = pytest.mark.apiserver
in_loop = pytest.mark.asyncio(loop_scope="module")

MEMBERS = ("master-0", "worker-0", "worker-1")


@pytest.fixture(scope="module")
def second_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for this module alone."""
    with ready_control_plane(tmp_path_factory.mktemp("second-server")) as plane:
        yield plane


def kill_apiserver(plane: ControlPlane) -> None:
    plane.kill_apiserver()


def kill_etcd(plane: ControlPlane) -> None:
    etcd, *_ = plane.processes
    etcd.stop(signal.SIGKILL)


def come_back(plane: ControlPlane) -> None:
    plane.start_etcd()
    plane.start_apiserver()


@pytest.mark.fault("D1", "D2")
@pytest.mark.parametrize("number", sampled((3, 8, 10), 3, 10))
@pytest.mark.parametrize("strike", [kill_apiserver, kill_etcd])
@in_loop
async def test_a_server_may_die_at_a_write(
    environment: Environment, second_server: ControlPlane, strike: Callable[[ControlPlane], None], number: int
) -> None:
    """At the third, a pod is being made; at the eighth the job says that it runs; at the tenth it is cleaned up."""
    run = Run(environment, pytorchjob("a", policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2))
    struck: list[asyncio.Task[None]] = []
    group = asyncio.TaskGroup()

    async def at(request: Request, forward: Forward) -> Answer:
        if request.number != number:
            return await forward()
        on_its_way = asyncio.create_task(forward())
        await asyncio.sleep(0)
        strike(second_server)
        struck.append(group.create_task(asyncio.to_thread(come_back, second_server)))
        return await on_its_way

    run.route.on_write = at
    run.counted = 0
    async with group, run:  # if the server does not come back, the test ends
        await run.client.create()
        await persistently(lambda: run.client.running(*MEMBERS))
        await persistently(lambda: run.client.end("master-0", 0))
        await persistently(lambda: run.client.says("Succeeded"))
        await run.client.nothing_left()
        await asyncio.gather(*struck)
        await run.rest()
        assert run.supervisor.starts == 1, "the operator may not die of it"
    assert struck
    assert made(run) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert run.violations() == ()


async def persistently(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat a user's request until the server is available."""
    for _ in range(60):
        try:
            return await work()
        except TimeoutError:  # an OSError as well, but one that says that the server was there and nothing came of it
            raise
        except (aiohttp.ClientError, OSError, Refused):
            await asyncio.sleep(0.5)
    return await work()


@pytest.mark.fault("D3")
@in_loop
async def test_a_frozen_etcd_costs_time_and_at_most_the_lease(
    environment: Environment, second_server: ControlPlane
) -> None:
    """Nothing can be stored for 20 s: longer than the Lease lasts, so that its holder must have stepped down."""
    job = pytorchjob("a", policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2)
    run = Run(environment, job, "--leader-elect", "--lease-name=mine")
    run.counted = 0
    etcd, *_ = second_server.processes
    async with run:
        await run.client.create()
        await run.client.running(*MEMBERS)
        os.kill(etcd.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(20)
            log = run.supervisor.operator.log.read_text()
        finally:
            os.kill(etcd.pid, signal.SIGCONT)
        assert "lease mine: lost" in log, log[-2000:]
        await persistently(lambda: run.client.end("master-0", 0))
        await persistently(lambda: run.client.says("Succeeded"))
        await run.client.nothing_left()
        await run.rest()
        assert run.supervisor.starts == 1
    assert made(run) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert run.violations() == ()


@pytest.mark.fault("D8")
@in_loop
async def test_all_connections_may_be_cut_again_and_again(environment: Environment) -> None:
    """Every third write, and every other read, is hung up on, half of them once they were carried out."""
    run = Run(environment, pytorchjob("a", policy={"cleanPodPolicy": "All", "backoffLimit": 0}, Master=1, Worker=2))
    count = 0

    async def cut(_request: Request, forward: Forward) -> Answer:
        nonlocal count
        count += 1
        if count % 3:
            return await forward()
        if count % 2:
            await forward()
        return LOST

    run.route.on_write = run.route.on_read = cut
    run.counted = 0
    async with run:
        await run.client.create()
        await run.client.running(*MEMBERS)
        environment.proxy.hang_up()
        await run.client.end("master-0", 0)
        environment.proxy.hang_up()
        await run.client.says("Succeeded")
        await run.client.nothing_left()
        await run.rest()
        assert run.supervisor.starts == 1
    assert made(run) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert run.violations(faults=count) == ()


def test_the_test_clients_close_while_the_server_hangs(second_server: ControlPlane, tmp_path: Path):
    """A connection that outlives its event loop causes a warning, which pytest turns into an error."""
    _, apiserver, *_ = second_server.processes

    async def stop_apiserver() -> None:
        async with environment_on(second_server, tmp_path):
            await asyncio.sleep(1)
            os.kill(apiserver.pid, signal.SIGSTOP)

    try:
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(stop_apiserver())
    finally:
        os.kill(apiserver.pid, signal.SIGCONT)
    gc.collect()

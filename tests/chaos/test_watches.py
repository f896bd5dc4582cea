"""Watches that misbehave for long: they end every second, are late, or skip the whole life of an object."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from support.api_request import Request
from support.jobs import pytorchjob, tfjob
from support.user_client import where

from .run import Environment, Run
from .test_crashes import made
from .workloads import succeeds, trains

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]

Lines = AsyncIterator[bytes]
MEMBERS = ("master-0", "worker-0", "worker-1")
PS = ("chief-0", "ps-0", "worker-0", "worker-1")


def ddp() -> dict:
    return pytorchjob("a", restart="ExitCode", policy={"cleanPodPolicy": "Running"}, Master=1, Worker=2)


def all_once(run: Run) -> bool:
    return made(run) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)


@pytest.mark.fault("C6")
async def test_every_watch_may_end_after_a_second(environment: Environment) -> None:
    run, began = Run(environment, ddp()), []

    async def short(_request: Request, lines: Lines) -> Lines:
        began.append(time.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                async for line in lines:
                    yield line

    run.route.on_watch = short
    async with run:
        await run.client.create()
        await run.client.running(*MEMBERS)
        await asyncio.sleep(3)
        await succeeds(run.client, ("master-0",))
        await run.rest()
        lasted, kinds = time.time() - began[0], 4
    assert all_once(run)
    assert len(began) <= kinds * (lasted + 2), "the watches begin again in haste"
    assert run.violations(faults=0) == ()


@pytest.mark.fault("C1", "C3")
@pytest.mark.parametrize("plural", ["pytorchjobs", "pods", "services"])
async def test_one_watch_may_be_late_all_the_time(environment: Environment, plural: str) -> None:
    """Pods appear before their job, and jobs disappear before their pods."""
    run = Run(environment, ddp())

    async def late(request: Request, lines: Lines) -> Lines:
        async for line in lines:
            if request.plural == plural:
                await asyncio.sleep(0.7)
            yield line

    run.route.on_watch = late
    run.counted = 0
    async with run:
        await trains(run.client, MEMBERS, ("master-0",))
        await run.rest(lambda: sorted(run.client.pods) == ["master-0"])
        assert all_once(run)
        path = where("pytorchjobs", run.namespace, "a")
        await environment.api.call("DELETE", path)
        await run.client.nothing_left()
        await run.rest()
    assert all_once(run)
    assert run.violations() == ()


@pytest.mark.fault("C12")
@pytest.mark.parametrize("plural", ["tfjobs", "pods"])
async def test_one_watch_may_be_seconds_behind_the_other_after_a_restart(environment: Environment, plural: str) -> None:
    """A worker fails and is replaced; the next operator receives one kind six seconds after the other."""
    job = tfjob("a", restart="ExitCode", policy={"backoffLimit": 1}, Chief=1, PS=1, Worker=2)
    run, slow = Run(environment, job), asyncio.Event()

    async def behind(request: Request, lines: Lines) -> Lines:
        async for line in lines:
            if slow.is_set() and request.plural == plural:
                await asyncio.sleep(6)
                slow.clear()
            yield line

    run.route.on_watch = behind
    run.counted = 1
    async with run:
        await run.client.create()
        await run.client.running(*PS)
        old = {"worker-1": run.client.uids["worker-1"]}
        run.supervisor.paused = True
        run.kill()
        slow.set()
        run.supervisor.paused = False
        await run.client.end("worker-1", 137)
        await run.client.running(*PS, old=old)
        await succeeds(run.client, ("chief-0",))
        await run.rest()
    assert made(run)["a-worker-1"] == 2
    assert run.violations() == ()


@pytest.mark.fault("C9")
async def test_a_pod_that_no_watch_has_shown_is_no_success(environment: Environment) -> None:
    """In one gap a worker fails and is deleted: the unseen end is a disruption, which is not counted."""
    run, gap = Run(environment, tfjob("a", restart="ExitCode", policy={"backoffLimit": 0}, Chief=1, PS=1, Worker=2)), []

    async def blind(request: Request, lines: Lines) -> Lines:
        async for line in lines:
            if gap and request.plural == "pods":
                await gap[0].wait()
                yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","metadata":{}}}'
                return
            yield line

    run.route.on_watch = blind
    run.counted = 0
    async with run:
        client = run.client
        await client.create()
        await client.running(*PS)
        gap.append(asyncio.Event())
        old = {"worker-1": client.uids["worker-1"]}
        await client.end("worker-1", 137)
        path = where("pods", run.namespace, "a-worker-1")
        await environment.api.call("DELETE", path, {"gracePeriodSeconds": 0})
        await client.until("it is gone", lambda: "worker-1" not in client.pods)
        gap.pop().set()
        await client.running(*PS, old=old)
        await succeeds(client, ("chief-0",))
        await run.rest()
    assert made(run)["a-worker-1"] == 2
    assert run.violations() == ()

"""What watches may do for longer than a moment: end every second, be late for a long time, skip a whole life."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from support.jobs import pytorchjob, tfjob

from .api import where
from .fixtures import clock, scenery
from .play import Play, Stage
from .request import Request
from .test_crashes import made
from .workloads import succeeds

__all__ = ["clock", "scenery"]
pytestmark = pytest.mark.apiserver

Lines = AsyncIterator[bytes]
MEMBERS = ("master-0", "worker-0", "worker-1")
PS = ("chief-0", "ps-0", "worker-0", "worker-1")


def ddp() -> dict:
    return pytorchjob("a", restart="ExitCode", policy={"cleanPodPolicy": "Running"}, Master=1, Worker=2)


def all_once(play: Play) -> bool:
    return made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)


def test_every_watch_may_end_after_a_second(clock: asyncio.Runner, scenery: Stage):
    clock.run(ends_after_a_second(scenery))


async def ends_after_a_second(scenery: Stage) -> None:
    play, began = Play(scenery, ddp()), []

    async def short(_request: Request, lines: Lines) -> Lines:
        began.append(time.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                async for line in lines:
                    yield line

    play.porter.on_watch = short
    async with play:
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        await asyncio.sleep(3)
        await succeeds(play.scene, ("master-0",))
        await play.rest()
        lasted, kinds = time.time() - began[0], 4
    assert all_once(play)
    assert len(began) <= kinds * (lasted + 2), "the watches begin again in haste"
    assert play.violations(faults=0) == ()


@pytest.mark.parametrize("plural", ["pytorchjobs", "pods", "services"])
def test_one_watch_may_be_late_all_the_time(clock: asyncio.Runner, scenery: Stage, plural: str):
    """So that pods come before their job, and jobs go before their pods."""
    clock.run(is_late(scenery, plural))


async def is_late(scenery: Stage, plural: str) -> None:
    play = Play(scenery, ddp())

    async def late(request: Request, lines: Lines) -> Lines:
        async for line in lines:
            if request.plural == plural:
                await asyncio.sleep(0.7)
            yield line

    play.porter.on_watch = late
    play.counted = 0
    async with play:
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        await succeeds(play.scene, ("master-0",))
        await play.rest(lambda: sorted(play.scene.pods) == ["master-0"])
        assert all_once(play)
        path = where("pytorchjobs", play.namespace, "a")
        await scenery.api.call("DELETE", path)
        await play.scene.until("nothing is left", lambda: not (play.scene.pods or play.scene.services))
        await play.rest()
    assert all_once(play)
    assert play.violations() == ()


@pytest.mark.parametrize("plural", ["tfjobs", "pods"])
def test_who_takes_over_may_know_one_half_much_later_than_the_other(clock: asyncio.Runner, scenery: Stage, plural: str):
    clock.run(knows_one_half(scenery, plural))


async def knows_one_half(scenery: Stage, plural: str) -> None:
    """A worker fails and is replaced; the next operator hears of one kind six seconds after the other."""
    job = tfjob("a", restart="ExitCode", policy={"backoffLimit": 1}, Chief=1, PS=1, Worker=2)
    play, slow = Play(scenery, job), asyncio.Event()

    async def behind(request: Request, lines: Lines) -> Lines:
        async for line in lines:
            if slow.is_set() and request.plural == plural:
                await asyncio.sleep(6)
                slow.clear()
            yield line

    play.porter.on_watch = behind
    play.counted = 1
    async with play:
        await play.scene.create()
        await play.scene.running(*PS)
        old = {"worker-1": play.scene.uids["worker-1"]}
        play.keeper.rest = True
        play.kill()
        slow.set()
        play.keeper.rest = False
        await play.scene.end("worker-1", 137)
        await play.scene.running(*PS, old=old)
        await succeeds(play.scene, ("chief-0",))
        await play.rest()
    assert made(play)["a-worker-1"] == 2
    assert play.violations() == ()


def test_a_life_that_nobody_saw_is_no_success(clock: asyncio.Runner, scenery: Stage):
    clock.run(sees_nothing(scenery))


async def sees_nothing(scenery: Stage) -> None:
    """In one gap a worker fails and is deleted: what was not seen is a disruption, and is not counted."""
    play, gap = Play(scenery, tfjob("a", restart="ExitCode", policy={"backoffLimit": 0}, Chief=1, PS=1, Worker=2)), []

    async def blind(request: Request, lines: Lines) -> Lines:
        async for line in lines:
            if gap and request.plural == "pods":
                await gap[0].wait()
                yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","metadata":{}}}'
                return
            yield line

    play.porter.on_watch = blind
    play.counted = 0
    async with play:
        scene = play.scene
        await scene.create()
        await scene.running(*PS)
        gap.append(asyncio.Event())
        old = {"worker-1": scene.uids["worker-1"]}
        await scene.end("worker-1", 137)
        path = where("pods", play.namespace, "a-worker-1")
        await scenery.api.call("DELETE", path, {"gracePeriodSeconds": 0})
        await scene.until("it is gone", lambda: "worker-1" not in scene.pods)
        gap.pop().set()
        await scene.running(*PS, old=old)
        await succeeds(scene, ("chief-0",))
        await play.rest()
    assert made(play)["a-worker-1"] == 2
    assert play.violations() == ()


def test_a_result_that_was_stored_outlives_its_pod(clock: asyncio.Runner, scenery: Stage):
    clock.run(forgets_no_result(scenery))


async def forgets_no_result(scenery: Stage) -> None:
    """One of two workers succeeds, which is stored; while nobody looks its pod is deleted, and is not made again."""
    job = tfjob("a", Worker=2)
    job["spec"]["successPolicy"] = "AllWorkers"
    play = Play(scenery, job)
    async with play:
        scene = play.scene
        await scene.create()
        await scene.running("worker-0", "worker-1")
        await scene.end("worker-0", 0)
        await scene.until("it is stored", lambda: stored_as_done(scene.document))
        play.keeper.rest = True
        play.kill()
        path = where("pods", play.namespace, "a-worker-0")
        await scenery.api.call("DELETE", path, {"gracePeriodSeconds": 0})
        await scene.until("it is gone", lambda: "worker-0" not in scene.pods)
        play.keeper.rest = False
        await asyncio.sleep(2)
        await scene.end("worker-1", 0)
        await scene.says("Succeeded")
        await play.rest()
    assert made(play) == {"a-worker-0": 1, "a-worker-1": 1}
    assert play.violations() == ()


def stored_as_done(document: dict) -> bool:
    tallies = document.get("status", {}).get("replicaStatuses", {})
    return tallies.get("Worker", {}).get("completedIndexes") == "0"

"""Crashes that are more than one at one write: with many requests under way, again and again, politely, and early."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter

import pytest

from support.jobs import job, pytorchjob
from support.user_client import Refused

from .api import where
from .fixtures import clock, scenery
from .play import Play, Stage
from .proxy import LOST, Forward
from .request import Answer, Request
from .workloads import succeeds

__all__ = ["clock", "scenery"]
pytestmark = pytest.mark.apiserver

WORKERS = ("worker-0", "worker-1", "worker-2")
MEMBERS = ("master-0", *WORKERS)


def made(play: Play, plural: str = "pods") -> Counter[str]:
    """How often each object was made."""
    found = [version for version in play.pages.versions if version.plural == plural and version.before is None]
    return Counter(version.name for version in found if version.after)


def makes_pod(request: Request) -> bool:
    return request.verb == "POST" and request.plural == "pods"


@pytest.mark.parametrize("subset", range(8))
def test_any_of_the_creates_under_way_may_have_been_done(clock: asyncio.Runner, scenery: Stage, subset: int):
    """Three creates are under way when the operator dies: each of their eight subsets is completed to the whole."""
    clock.run(dies_with_creates_under_way(scenery, subset))


async def dies_with_creates_under_way(scenery: Stage, subset: int) -> None:
    play = Play(scenery, pytorchjob("a", Master=1, Worker=3))
    waiting: list[str] = []
    all_here, dead = asyncio.Event(), asyncio.Event()

    async def hold(request: Request, forward: Forward) -> Answer:
        if not makes_pod(request) or request.name == "a-master-0" or dead.is_set():
            return await forward()
        waiting.append(request.name)
        if len(waiting) == len(WORKERS):
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 20)
        if subset >> int(request.name[-1]) & 1:
            await forward()
        if not dead.is_set():
            play.kill()
            dead.set()
        return LOST

    play.porter.on_write = hold
    async with play:
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        await succeeds(play.scene, ("master-0",))
        await play.rest()
    assert len(play.keeper.lives) == 2
    assert made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert play.violations() == ()


def test_the_answer_of_every_create_may_be_lost(clock: asyncio.Runner, scenery: Stage):
    clock.run(loses_the_first_answers(scenery))


async def loses_the_first_answers(scenery: Stage) -> None:
    play = Play(scenery, pytorchjob("a", policy={"backoffLimit": 0}, Master=1, Worker=3))
    lost: set[str] = set()

    async def lose(request: Request, forward: Forward) -> Answer:
        answer = await forward()
        if request.verb != "POST" or str(request) in lost or request.plural == "events":
            return answer
        lost.add(str(request))
        return LOST

    play.porter.on_write = lose
    play.counted = 0
    async with play:
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        await succeeds(play.scene, ("master-0",))
        await play.rest()
    assert len(lost) >= len(MEMBERS)
    assert made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert play.violations(faults=len(lost)) == ()


@pytest.mark.parametrize("every", [1, 2, 3, 4, 5])
def test_who_dies_at_every_so_many_writes_comes_to_an_end_all_the_same(
    clock: asyncio.Runner, scenery: Stage, every: int
):
    clock.run(dies_again_and_again(scenery, every))


async def dies_again_and_again(scenery: Stage, every: int) -> None:
    play = Play(scenery, job("JAXJob", "a", policy={"cleanPodPolicy": "All"}, Worker=2))
    count = 0

    async def strike(_request: Request, forward: Forward) -> Answer:
        nonlocal count
        answer = await forward()
        count += 1
        if count % every == 0:
            play.kill()
            return LOST
        return answer

    play.porter.on_write = strike
    async with play:
        await play.scene.create()
        await play.scene.running("worker-0", "worker-1")
        await succeeds(play.scene, ("worker-0", "worker-1"))
        await play.scene.until("nothing is left", lambda: not (play.scene.pods or play.scene.services))
        await play.rest()
        lives = len(play.keeper.lives)
    assert 2 <= lives <= len(play.porter.writes) + 1
    assert made(play) == {"a-worker-0": 1, "a-worker-1": 1}
    assert play.violations(faults=lives) == ()


def test_who_is_asked_to_end_in_the_middle_finishes_what_is_under_way_and_gives_the_lease_back(
    clock: asyncio.Runner, scenery: Stage
):
    clock.run(ends_in_the_middle(scenery))


async def ends_in_the_middle(scenery: Stage) -> None:
    play = Play(scenery, pytorchjob("a", Master=1, Worker=3), "--leader-elect", "--lease-name=mine")
    asked: list[float] = []

    async def slow(request: Request, forward: Forward) -> Answer:
        if request.name == "a-worker-0" and makes_pod(request) and not asked:
            asked.append(time.time())
            play.keeper.rest = True
            play.keeper.life.signal(signal.SIGTERM)
        if asked and makes_pod(request):
            await asyncio.sleep(0.5)
        return await forward()

    play.porter.on_write = slow
    async with play:
        await play.scene.create()
        first = play.keeper.life
        assert await asyncio.wait_for(asyncio.shield(first.over), 40) == 0
        took = time.time() - asked[0]
        assert not play.porter.under_way
        assert all(one.told for one in play.porter.passed), "a write was broken off"
        lease = await scenery.api.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{play.namespace}/leases/mine")
        assert lease["spec"].get("holderIdentity", "") == ""
        play.keeper.rest = False
        await play.scene.running(*MEMBERS)
        await succeeds(play.scene, ("master-0",))
        await play.rest()
    assert took <= 8, "5 s are promised; this machine may be busy"
    assert made(play) == dict.fromkeys((f"a-{member}" for member in MEMBERS), 1)
    assert play.violations() == ()


@pytest.mark.parametrize("plural", ["pods", "services", "pytorchjobs"])
def test_nothing_is_done_before_everything_is_listed(clock: asyncio.Runner, scenery: Stage, plural: str):
    clock.run(lists_slowly(scenery, plural))


async def lists_slowly(scenery: Stage, plural: str) -> None:
    """One list takes long, and meanwhile a user makes a job and deletes another; then all is as it should be."""
    play = Play(scenery, pytorchjob("a", Master=1, Worker=1))
    listed: list[float] = []
    hold = asyncio.Event()

    async def slow(request: Request, forward: Forward) -> Answer:
        if request.lists and request.plural == plural and not request.by_kopf and not listed:
            answer = await forward()
            await hold.wait()
            listed.append(time.time())
            return answer
        return await forward()

    play.porter.on_read = slow
    async with play:
        await play.scene.create()
        gone = pytorchjob("b", Master=1)
        await scenery.api.call("POST", where("pytorchjobs", play.namespace), gone)
        await asyncio.sleep(2)
        await scenery.api.call("DELETE", where("pytorchjobs", play.namespace, "b"))
        assert play.porter.writes == []
        hold.set()
        await play.scene.running("master-0", "worker-0")
        await succeeds(play.scene, ("master-0",))
        await play.rest()
    assert min(write.at for write in play.porter.writes) >= listed[0]
    assert made(play) == {"a-master-0": 1, "a-worker-0": 1}
    assert play.violations() == ()
    with pytest.raises(Refused):
        await scenery.api.call("GET", where("pods", play.namespace, "b-master-0"))

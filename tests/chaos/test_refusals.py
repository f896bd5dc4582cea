"""What the API server may refuse for a while: a kind, a right, a token; and what it says of what is gone already."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from support.user_client import Refused

from .api import where
from .fixtures import clock, scenery
from .play import Play, Stage
from .proxy import Forward
from .request import Answer, Request, refusal
from .scene import Scene
from .test_answers import MEMBERS, ddp, lives
from .workloads import succeeds

__all__ = ["clock", "scenery"]
pytestmark = pytest.mark.apiserver


def test_one_kind_may_be_out_of_order(clock: asyncio.Runner, scenery: Stage):
    clock.run(has_no_services(scenery))


async def has_no_services(scenery: Stage) -> None:
    """Nobody answers for Services: jobs that run go on to their end, a new one begins once they are back."""
    play = Play(scenery, ddp())

    async def no_services(request: Request, forward: Forward) -> Answer:
        return refusal(503, "ServiceUnavailable") if request.plural == "services" else await forward()

    async with play:
        other = Scene(play.namespace, scenery.api, play.pages, scenery.kubelet, ddp("b"), set())
        await play.scene.create()
        await play.scene.says("Running")
        play.porter.on_write = play.porter.on_read = no_services
        await other.create()
        await play.scene.end("master-0", 0)
        await play.scene.says("Succeeded")
        await play.scene.until("no pods of a", lambda: not [name for name in play.pages.now["pods"] if name[0] == "a"])
        play.porter.on_write = play.porter.on_read = lambda _request, forward: forward()
        await other.says("Running")
        await play.scene.until("no Services of a", lambda: not [n for n in play.pages.now["services"] if n[0] == "a"])
        await play.rest()
    assert play.violations(faults=5) == ()


def test_a_right_that_is_taken_away_is_missed_aloud_until_it_is_back(clock: asyncio.Runner, scenery: Stage):
    clock.run(may_not_make_pods(scenery))


async def may_not_make_pods(scenery: Stage) -> None:
    play = Play(scenery, ddp())

    async def no_pods(request: Request, forward: Forward) -> Answer:
        lost = request.plural == "pods" and request.verb == "POST"
        return refusal(403, "Forbidden", "User cannot create resource pods") if lost else await forward()

    play.porter.on_write = no_pods
    async with play:
        await play.scene.create()
        await play.scene.says("Blocked")
        asked = len(play.porter.writes)
        await asyncio.sleep(3)
        assert len(play.porter.writes) - asked <= 6, "it asks again and again"
        play.porter.on_write = lambda _request, forward: forward()
        await play.scene.running(*MEMBERS)
        assert not play.scene.is_true("Blocked")
        assert "cannot create resource pods" in play.keeper.life.log.read_text()
        await succeeds(play.scene, ("master-0",))
        await play.rest()
    assert play.violations() == ()


def test_a_token_may_be_another_every_second(clock: asyncio.Runner, scenery: Stage, tmp_path: Path):
    clock.run(changes_its_token(scenery, tmp_path))


async def changes_its_token(scenery: Stage, folder: Path) -> None:
    """The door knows the latest token only; no look fails because of that."""
    file = folder / "token"
    file.write_text("token-0")
    kubeconfig = scenery.proxy.kubeconfig(folder, tokenFile=str(file))
    play = Play(scenery, ddp(), f"--kubeconfig={kubeconfig}")
    refused = 0

    async def asks_who_it_is(request: Request, forward: Forward) -> Answer:
        nonlocal refused
        if request.headers.get("Authorization") != f"Bearer {file.read_text()}":
            refused += 1
            return refusal(401, "Unauthorized")
        return await forward()

    async def rotate() -> None:
        for number in range(1, 100):
            await asyncio.sleep(1)
            file.write_text(f"token-{number}")

    play.porter.on_write = play.porter.on_read = asks_who_it_is
    async with play:
        rotation = asyncio.create_task(rotate())
        await lives(play)
        rotation.cancel()
        told = [line for line in play.keeper.life.log.read_text().splitlines() if "again in" in line]
    assert told == []
    assert play.violations(faults=refused) == ()


def test_what_is_gone_already_needs_no_deleting(clock: asyncio.Runner, scenery: Stage):
    clock.run(finds_it_gone(scenery))


async def finds_it_gone(scenery: Stage) -> None:
    """Pods go just before the operator deletes them, and the job just before its next status is stored."""
    play = Play(scenery, ddp())

    async def hasty(request: Request, forward: Forward) -> Answer:
        if request.verb == "DELETE" and request.plural == "pods":
            with contextlib.suppress(Refused):
                path = where("pods", play.namespace, request.name)
                await scenery.api.call("DELETE", path, {"gracePeriodSeconds": 0})
        if request.verb == "PATCH" and b'"Succeeded"' in request.body and gone.is_set():
            await scenery.api.call("DELETE", where("pytorchjobs", play.namespace, "a"))
        return await forward()

    gone = asyncio.Event()
    play.porter.on_write = hasty
    async with play:
        await lives(play)
        gone.set()
        await scenery.api.call("DELETE", where("pytorchjobs", play.namespace, "a"))
        await play.scene.until("gone", lambda: play.scene.document is None)
        await play.scene.create()
        await play.scene.running(*MEMBERS)
        await play.scene.end("master-0", 0)
        await play.scene.until("gone again", lambda: play.scene.document is None)
        await play.scene.until("nothing is left", lambda: not (play.scene.pods or play.scene.services))
        await play.rest()
        assert "ERROR" not in play.keeper.life.log.read_text()
    assert play.violations() == ()

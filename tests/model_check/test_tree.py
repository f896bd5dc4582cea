"""The smallest world is searched whole, and whoever breaks a promise in it is found."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from trainshed.api.actions import DeletePod
from trainshed.controller.executor import Executor

from .scenarios import SMALLEST
from .small import SmallWorld
from .tree import Search

MINUTES = 5 * 60


def test_the_smallest_world_has_no_end_that_breaks_a_promise() -> None:
    found = Search(SMALLEST, 2, MINUTES).run()
    assert found.whole
    assert found.wrong == ()
    assert found.states > 30
    assert found.ends > 5


def test_a_search_without_time_says_that_it_is_not_whole() -> None:
    assert not Search(SMALLEST, 1, 0.0).run().whole


def test_a_search_that_loses_a_process_says_that_it_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    take = SmallWorld.take

    def fatal(self: SmallWorld, name: str, move: Callable[[], None]) -> None:
        if len(self.path) == 7 and name == "time passes":
            os.kill(os.getpid(), signal.SIGKILL)
        take(self, name, move)

    monkeypatch.setattr(SmallWorld, "take", fatal)
    found = Search(SMALLEST, 1, MINUTES).run()
    assert not found.whole
    assert found.wrong == ()


def test_an_operator_that_deletes_what_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Executor.run

    async def overdone(self, snapshot, actions):  # type: ignore[no-untyped-def]
        running = (pod for pod in snapshot.pods if pod.phase == "Running")
        return await run(self, snapshot, (*actions, *(DeletePod(pod.name, pod.uid) for pod in running)))

    monkeypatch.setattr(Executor, "run", overdone)
    found = Search(replace(SMALLEST, name="a fault of its own"), 2, MINUTES).run()
    assert found.wrong != ()
    assert "job-" in found.wrong[0]

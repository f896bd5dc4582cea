"""A search that was broken off is gone on with, unless the world is another by now."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from . import progress
from .progress import Progress
from .scenarios import PAIR, SMALLEST, scenario
from .small import SmallWorld
from .tree import Notes, Search

MINUTES = 5 * 60


class Brief(Search):
    """A search that is broken off after so many states."""

    def __init__(self, most: int, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most, self._tried = most, multiprocessing.Value("i")

    def _new(self, world: SmallWorld, notes: Notes) -> int | None:
        with self._tried.get_lock():
            self._tried.value += 1
            notes.late |= self._tried.value > self._most
        return super()._new(world, notes)


def test_a_search_that_is_broken_off_again_and_again_finds_what_one_in_one_go_finds(tmp_path: Path) -> None:
    small = scenario(PAIR, 0, 1)
    at_once = Search(small, 2, MINUTES).run()
    tries = 0
    while not (found := Brief(100, small, 2, MINUTES, home=tmp_path).run()).whole:
        tries += 1
        assert tries < 30, "it never comes to an end"
    assert tries > 1, "it was not broken off"
    assert found.states == at_once.states
    assert found.outcomes == at_once.outcomes
    assert found.moves >= at_once.moves
    assert not list(tmp_path.iterdir()), "what is whole need not be gone on with"


def test_a_search_without_time_finishes_nothing(tmp_path: Path) -> None:
    assert not Search(SMALLEST, 1, 0.0, home=tmp_path).run().whole
    assert len(Progress(SMALLEST, tmp_path).finished) == 0


def test_finished_states_are_kept_until_somebody_changes_the_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Progress(SMALLEST, tmp_path).finished.add(5)
    assert not Progress(SMALLEST, tmp_path).finished.add(5)
    assert Progress(scenario(PAIR, 0, 1), tmp_path).finished.add(5), "another world"
    monkeypatch.setattr(progress, "_version", lambda: "another")
    assert Progress(SMALLEST, tmp_path).finished.add(5), "other sources"

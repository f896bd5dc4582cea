"""The figures of a world are kept until it is searched again, or is no more."""

from __future__ import annotations

import tomllib
from pathlib import Path

from .__main__ import replace
from .scenarios import SCENARIOS
from .tree import Found

SMALL, LARGE = SCENARIOS[0].name, SCENARIOS[-1].name


def a_search(name: str, states: int) -> Found:
    return Found(name, states, moves=7, ends=2, longest=5, whole=True, seconds=1.5, wrong=())


def test_figures_of_other_worlds_stay_and_all_stand_from_the_smallest_on(tmp_path: Path) -> None:
    file = tmp_path / "exhaustive.toml"
    file.write_text('[[worlds]]\nworld = "one that is no more"\nstates = 1\n')
    for found in (a_search(LARGE, 10), a_search(SMALL, 3), a_search(LARGE, 20)):
        replace(found, file)
    written = tomllib.loads(file.read_text())
    assert [(world["world"], world["states"]) for world in written["worlds"]] == [(SMALL, 3), (LARGE, 20)]


def test_the_first_figures_begin_a_file(tmp_path: Path) -> None:
    replace(a_search(SMALL, 3), tmp_path / "new.toml")
    assert len(tomllib.loads((tmp_path / "new.toml").read_text())["worlds"]) == 1

"""The figures of a run replace those of the run before, and say how and when they were found."""

from __future__ import annotations

import tomllib
from pathlib import Path

from .results import FOLDER, keep, kept, place


def test_figures_are_kept_with_the_command_and_the_day(tmp_path: Path) -> None:
    file = tmp_path / "runs" / "soak.toml"
    assert kept(file) == {}
    keep(file, "make soak", {"jobs": 1, "by fault": [{"fault": 'a "cut"', "times": 2}]})
    keep(file, "make soak MINUTES=5", {"jobs": 3, "rss": 1.5, "faults": {"a cut": 2}})
    found = kept(file)
    assert len(found.pop("date")) == len("2026-01-01")
    assert found == {"command": "make soak MINUTES=5", "jobs": 3, "rss": 1.5, "faults": {"a cut": 2}}
    assert [path.name for path in file.parent.iterdir()] == ["soak.toml"]
    assert file.stat().st_mode & 0o777 != 0o600, "it is for everybody, and no key"


def test_what_is_kept_can_be_read_by_anybody() -> None:
    assert place("soak").parent == FOLDER
    for file in FOLDER.iterdir():
        assert {"command", "date"} <= tomllib.loads(file.read_text()).keys(), file.name

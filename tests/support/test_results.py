"""Result files have the command and the date, and replace those of earlier runs."""

from __future__ import annotations

from pathlib import Path

from .results import FOLDER, keep, kept, place, quantile


def test_results_are_stored_with_the_command_and_the_date(tmp_path: Path) -> None:
    file = tmp_path / "runs" / "soak.toml"
    assert kept(file) == {}
    keep(file, "make soak", {"jobs": 1, "by fault": [{"fault": 'a "cut"', "times": 2}]})
    keep(file, "make soak MINUTES=5", {"jobs": 3, "rss": 1.5, "faults": {"a cut": 2}})
    found = kept(file)
    assert len(found.pop("date")) == len("2026-01-01")
    assert found == {"command": "make soak MINUTES=5", "jobs": 3, "rss": 1.5, "faults": {"a cut": 2}}
    assert [path.name for path in file.parent.iterdir()] == ["soak.toml"]
    assert file.stat().st_mode & 0o777 != 0o600, "other users may read it"


def test_each_run_has_its_own_file() -> None:
    assert place("soak") == FOLDER / "soak.toml"


def test_a_quantile_is_one_of_the_values() -> None:
    assert [quantile([0.123, 2.0, 3.0], part) for part in (0, 0.5, 0.99, 1)] == [0.12, 2.0, 3.0, 3.0]
    assert quantile([], 0.5) == 0.0

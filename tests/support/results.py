"""Result files of the long runs: one TOML file for each run below build/results, with the command and the date."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from testbed.places import ROOT, written

FOLDER = ROOT / "build" / "results"


def place(run: str) -> Path:
    return FOLDER / f"{run}.toml"


def kept(file: Path) -> dict[str, Any]:
    """The content of a result file, empty if there is none."""
    return tomllib.loads(file.read_text()) if file.exists() else {}


def keep(file: Path, command: str, found: Mapping[str, Any]) -> None:
    """Replace a result file atomically; `command` is the command that has produced the results today."""
    day = datetime.now(UTC).date().isoformat()
    file.parent.mkdir(parents=True, exist_ok=True)
    written(file, tomli_w.dumps({"command": command, "date": day} | dict(found)), mode=0o644)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of sorted values lies, rounded to hundredths; 0 without values."""
    return round(values[min(len(values) - 1, int(part * len(values)))], 2) if values else 0.0

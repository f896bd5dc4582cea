"""What the long runs leave behind: a file of TOML each, with the command and the day, for docs/reliability.md."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from bed.places import written

from .matrix import TESTS

FOLDER = TESTS / "faults" / "results"


def place(run: str) -> Path:
    """Where the figures of a run are kept."""
    return FOLDER / f"{run}.toml"


def kept(file: Path) -> dict[str, Any]:
    """What a file holds, nothing if there is none."""
    return tomllib.loads(file.read_text()) if file.exists() else {}


def keep(file: Path, command: str, found: Mapping[str, Any]) -> None:
    """Put the figures that a command has found today in the place of those of before, all of them or none."""
    day = datetime.now(UTC).date().isoformat()
    file.parent.mkdir(parents=True, exist_ok=True)
    written(file, tomli_w.dumps({"command": command, "date": day} | dict(found)), mode=0o644)

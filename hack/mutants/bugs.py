"""The seeded bugs as data: the claim that each breaks, its origin, and the text replacements that apply it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OWN = "own"


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement in `file`, a path from the root; `find` occurs in it exactly once."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Bug:
    """One seeded bug. `source` is `own`, or P1 to P23 for a bug of another operator, then described in `peers`.

    `claim` is what goes wrong, `hint` the tests that are most likely to detect it.
    """

    id: str
    claim: str
    edits: tuple[Edit, ...]
    source: str = OWN
    peers: str = ""
    hint: tuple[str, ...] = ()


def bugs() -> tuple[Bug, ...]:
    """All seeded bugs, those of other operators first; raises `TypeError` for an unknown key."""
    files = (HERE / "peers.toml", HERE / "own.toml")
    return tuple(_bug(dict(item)) for file in files for item in tomllib.loads(file.read_text())["bug"])


def patched(bug: Bug, root: Path = ROOT) -> dict[str, str]:
    """The new content of each file that a bug changes; raises `ValueError` if a replacement does not apply."""
    found: dict[str, str] = {}
    for edit in bug.edits:
        text = found.get(edit.file) or (root / edit.file).read_text()
        if (count := text.count(edit.find)) != 1:
            raise ValueError(f"{bug.id}: {edit.find!r} is {count} times in {edit.file}")
        found[edit.file] = text.replace(edit.find, edit.replace)
    return found


def problems(bug: Bug) -> Iterator[str]:
    """Return the problems of a bug: it does not apply, is invalid Python, or changes only comments and layout."""
    try:
        for name, text in patched(bug).items():
            if ast.dump(ast.parse(text)) == ast.dump(ast.parse((ROOT / name).read_text())):
                yield f"{bug.id}: {name} has the same meaning as before"
    except (ValueError, OSError, SyntaxError) as error:
        yield f"{bug.id}: {error}"


def _bug(item: dict) -> Bug:
    edits = tuple(Edit(**edit) for edit in item.pop("edit"))
    return Bug(**item | {"hint": tuple(item.get("hint", ()))}, edits=edits)

"""The seeded bugs as data: what each breaks, where it comes from, and the text that puts it in."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
#: Bugs that peers have had, P1 to P23, as the nearest equivalent in our rooms; and those that we thought of ourselves.
PEERS, OWN = "P", "own"
PEERS_HAD = tuple(f"{PEERS}{number}" for number in range(1, 24))


@dataclass(frozen=True, slots=True)
class Edit:
    """In `file`, from the root, `replace` takes the place of `find`, which is there exactly once."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Bug:
    """One seeded bug; `claim` says what is wrong once it is in, `hint` which tests are likely to notice first.

    `source` is the row of a peer's bug or `own`, `peers` where it was seen.
    """

    id: str
    claim: str
    source: str
    edits: tuple[Edit, ...]
    peers: str = ""
    hint: tuple[str, ...] = ()


def bugs(folder: Path = HERE) -> tuple[Bug, ...]:
    """All seeded bugs, the peers' first; raises `TypeError` for a key that a bug does not have."""
    found = [_bug(item) for path in sorted(folder.glob("*.toml")) for item in tomllib.loads(path.read_text())["bug"]]
    return tuple(sorted(found, key=_place))


def seeded(bug: Bug, read: dict[str, str]) -> dict[str, str]:
    """The files in `read`, by their name, with the bug in those that it touches.

    Raises `ValueError` if a text to be replaced is not there exactly once, `KeyError` for a file that is not in `read`.
    """
    texts = dict(read)
    for edit in bug.edits:
        count = texts[edit.file].count(edit.find)
        if count != 1:
            raise ValueError(f"{bug.id}: {edit.find!r} is {count} times in {edit.file}")
        texts[edit.file] = texts[edit.file].replace(edit.find, edit.replace)
    return {name: texts[name] for name in {edit.file for edit in bug.edits}}


def texts(bug: Bug, root: Path = ROOT) -> dict[str, str]:
    """The files that a bug touches, as they are."""
    return {edit.file: (root / edit.file).read_text() for edit in bug.edits}


def problems(bug: Bug, root: Path = ROOT) -> Iterator[str]:
    """What is wrong with a bug as data: it does not apply, changes nothing that Python would see, or is no Python."""
    try:
        before = texts(bug, root)
        after = seeded(bug, before)
    except (ValueError, OSError) as error:
        yield str(error)
        return
    for name, text in after.items():
        if not name.endswith(".py"):
            if text == before[name]:
                yield f"{bug.id}: {name} is the same as before"
            continue
        try:
            if ast.dump(ast.parse(text)) == ast.dump(ast.parse(before[name])):
                yield f"{bug.id}: {name} says the same as before"
        except SyntaxError as error:
            yield f"{bug.id}: {name} does not compile: {error}"


def _bug(item: dict) -> Bug:
    edits = tuple(Edit(**edit) for edit in item["edit"])
    rest = {key: value for key, value in item.items() if key not in ("edit", "hint")}
    return Bug(**rest, edits=edits, hint=tuple(item.get("hint", ())))


def _place(bug: Bug) -> tuple[bool, int]:
    """The peers' in their order, then our own as they stand."""
    return (False, int(bug.source.removeprefix(PEERS))) if bug.source != OWN else (True, 0)

"""The figures that the long runs left behind, one file a run, as tables for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results import FOLDER, kept


@dataclass(frozen=True, slots=True)
class Run:
    """A run that somebody made: with which command, on which day, and what it found."""

    name: str
    command: str
    date: str
    found: Mapping[str, Any]


def runs(folder: Path = FOLDER) -> dict[str, Run]:
    """All runs that left figures, by name; raises `KeyError` for one that does not say how and when it was made."""
    return {path.stem: _run(path.stem, kept(path)) for path in sorted(folder.glob("*.toml"))}


def _run(name: str, found: dict[str, Any]) -> Run:
    return Run(name, found.pop("command"), str(found.pop("date")), found)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Markdown: a table of all single figures, then one for each list of records."""
    single = list(_single(found))
    if single:
        yield "| figure | |\n|---|---|"
        yield from (f"| {name} | {value} |" for name, value in single)
        yield ""
    for name, records in found.items():
        if _records(records):
            yield from _table(name, records)


def _single(found: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        words = f"{above}{name.replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _single(value, f"{words}: ")
        elif not _records(value):
            yield words, _cell(value)


def _table(name: str, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = list(dict.fromkeys(column for record in records for column in record))
    yield f"**{name.replace('_', ' ').capitalize()}**\n"
    yield f"| {' | '.join(column.replace('_', ' ') for column in columns)} |"
    yield f"|{'---|' * len(columns)}"
    for record in records:
        yield f"| {' | '.join(_cell(record.get(column, '')) for column in columns)} |"
    yield ""


def _records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("|", "\\|") or "-"

"""The commands of a page: the lines after `$` in its console blocks, and the output that the page shows for them.

A comment before each block lists what the block needs, for the test that runs it: `<!-- needs: cluster helm -->`. With
`; adds: --dry-run` the test appends that to each of its commands. If it needs `fails`, its commands end with 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(?:<!-- needs: ([\w ]+)(?:; adds: ([^>]*?))? -->\n)?```console\n(.*?)^```", re.DOTALL | re.MULTILINE
)
#: A line of the output that matches any number of lines.
ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines of its output that the page shows."""

    command: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of one block; `needs` is empty if the page has no comment."""

    needs: frozenset[str]
    adds: str
    steps: tuple[Step, ...]


def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of a page, in order."""
    found = (match.groups() for match in BLOCK.finditer(text))
    return tuple(
        Block(frozenset((needs or "").split()), adds or "", tuple(_steps(body))) for needs, adds, body in found
    )


def _steps(body: str) -> Iterator[Step]:
    """Join lines that end with a backslash; lines that do not begin with `$` are output."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, rest = part.replace("\\\n", " ").partition("\n")
        yield Step(command.partition(" # ")[0].strip(), tuple(rest.splitlines()))


def unlike(shown: tuple[str, ...], printed: str) -> str:
    """Return the first line of the page that the command did not print in this order; empty if it printed all of them.

    Numbers and the widths of columns may differ.
    """
    lines = iter(printed.splitlines())
    for line in shown:
        if line.strip() in ("", ELLIPSIS):
            continue
        wanted = re.compile(_loosely(line))
        if not any(wanted.fullmatch(found.strip()) for found in lines):
            return line
    return ""


def _loosely(line: str) -> str:
    words = (re.escape(word) for word in line.split())
    return r"\s+".join(re.sub(r"\d+(?:\\\.\d+)?[smh]?", r"\\d+(?:\\.\\d+)?[smh\\d]*", word) for word in words)

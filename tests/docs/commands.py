"""The commands of a page: what stands after `$` in its blocks of console, and what the page says that they print.

Before each block a comment says what it needs, for the test that runs it: `<!-- needs: cluster helm -->`. With
`; adds: --dry-run` the test adds that to each of its commands.
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
#: A line of the output that stands for any number of lines.
ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines that the page shows of what it prints."""

    command: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that belong together; what they need is empty if the page does not say it."""

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
    """A line that ends with a backslash goes on in the next; what does not begin with `$` is output."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, rest = part.replace("\\\n", " ").partition("\n")
        yield Step(command.partition(" # ")[0].strip(), tuple(rest.splitlines()))


def unlike(shown: tuple[str, ...], printed: str) -> str:
    """The first line that a page shows and the command did not print, after those before it; nothing if all came.

    Numbers may be others, and columns as wide as they like.
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

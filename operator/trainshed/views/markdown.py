"""A report as Markdown that GitHub and others show alike; what others have written in it is text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainshed.api import foreign_text

from .chapter import Chapter
from .post_mortem import Table

#: The characters that mean something in Markdown, or in the HTML within it; and those that do at the beginning only.
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$@])")
FIRST = re.compile(r"(?:[-+#=]|\d{1,9}(?=[.)](?:\s|$)))")


def text(found: str) -> str:
    """Return a text in one line, with a backslash before each character that Markdown would not show."""
    shown = SPECIAL.sub(r"\\\1", foreign_text.one_line(found))
    begin = FIRST.match(shown)
    if begin is None:
        return shown
    at = begin.end() if begin[0][0].isdigit() else 0
    return f"{shown[:at]}\\{shown[at:]}"


def block(found: str) -> str:
    """Return lines as they are, in a block that they cannot end."""
    shown = foreign_text.lines(found)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def table(found: Table) -> Iterator[str]:
    """Yield the blocks of a table, with its title as a heading; none of an empty one."""
    if not found.rows:
        return
    yield f"## {text(found.title)}"
    lines = [f"| {' | '.join(map(text, found.header))} |", f"|{'---|' * len(found.header)}"]
    lines += [f"| {' | '.join(map(text, row))} |" for row in found.rows]
    yield "\n".join(lines)


def chapters(found: Iterable[Chapter]) -> Iterator[str]:
    """Yield the blocks of the chapters of a story."""
    for chapter in found:
        yield f"## {text(chapter.title)}"
        yield "\n".join(f"- {text(line)}" for line in chapter.lines)


def document(blocks: Iterable[str]) -> str:
    """Return a document of blocks."""
    return "\n\n".join(blocks) + "\n"

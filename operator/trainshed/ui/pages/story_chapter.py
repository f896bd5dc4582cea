"""A chapter of a story as HTML, for the page of a job and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from htpy import Element, Node, dd, div, dt, p, pre, strong

from trainshed.views.chapter import Chapter

#: What begins a line of a log within a chapter.
LOG_LINE = "| "


def chapter(one: Chapter) -> Element:
    """Return a chapter: its title, and its lines."""
    return div[dt[one.title], dd[_lines(one.lines)]]


def _lines(lines: Sequence[str]) -> Iterator[Element]:
    """Yield lines as paragraphs; those of a log together, as they were printed."""
    log: list[str] = []
    for line in lines:
        if line.startswith(LOG_LINE):
            log.append(line.removeprefix(LOG_LINE))
            continue
        if log:
            yield pre(tabindex="0")["\n".join(log)]
            log = []
        yield p[_with_reason(line)]
    if log:
        yield pre(tabindex="0")["\n".join(log)]


def _with_reason(line: str) -> Iterator[Node]:
    """Yield a sentence with the words before its first colon set off, if they name a reason."""
    reason, colon, rest = line.partition(": ")
    if colon and reason.isalnum() and reason[:1].isupper():
        yield strong[reason]
        yield f": {rest}"
    else:
        yield line

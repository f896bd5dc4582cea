"""The page docs/conformance.md, made from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .register import DIFFERENCES, LAST, NUMBERS, SECTIONS, summary
from .row import Row, Verdict

PAGE = DIFFERENCES.with_name("conformance.md")
HEAD = """# Conformance with training-operator v1

Written by `python -m conformance --write`; change the tests in `tests/conformance/` instead.

The behaviour of training-operator 1.9 in {last} rows, and what became of each. Whether it is the same or different on
purpose, a test on a real API server shows it; different rows name their line in [differences.md](differences.md).
`make conformance` runs all of them and prints this table with the outcome.

{summary}.
"""


def text(decisions: Mapping[str, Row]) -> str:
    """The whole page."""
    return "\n".join((HEAD.format(last=LAST, summary=summary(decisions)), *_sections(decisions)))


def _sections(decisions: Mapping[str, Row]) -> Iterator[str]:
    ends = [*list(SECTIONS.values())[1:], LAST + 1]
    for (title, first), end in zip(SECTIONS.items(), ends, strict=True):
        yield f"## {title}\n"
        yield "| row | | claim | why |\n|---|---|---|---|"
        for number in NUMBERS[first - 1 : end - 1]:
            yield _line(number, decisions.get(number))
        yield ""


def _line(number: str, row: Row | None) -> str:
    if row is None:
        return f"| {number} | open | | |"
    because = row.because
    if row.verdict is Verdict.DIFFERS:
        because = ", ".join(f"[{difference}](differences.md)" for difference in row.because.split(", "))
    cells = (row.number, str(row.verdict), row.title, because)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("|  |", "| |")

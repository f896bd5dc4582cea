"""The rows of all modules of this folder, and the mistakes in them."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from .row import Row, Verdict, marked, untested

HERE = Path(__file__).parent
DIFFERENCES = HERE.parents[1] / "docs" / "differences.md"
#: The sections of the list, and the first row of each.
SECTIONS = {
    "The surface of the API": 1,
    "Defaults": 15,
    "Validation": 33,
    "Objects": 87,
    "Environment": 122,
    "Status, conditions, lifecycle": 152,
    "Gang scheduling": 239,
    "The SDK as a client": 249,
    "End to end": 259,
}
LAST = 266
NUMBERS = tuple(f"TO-{number:03}" for number in range(1, LAST + 1))


def claims() -> tuple[Row, ...]:
    """Return the claims of each test of this folder about a row; several tests may cover the same row."""
    found: list[Row] = []
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for test in checks(vars(module)):
            found.extend(marked(getattr(test, "pytestmark", ())))
    return (*found, *untested())


def checks(names: Mapping[str, object]) -> Iterator[object]:
    """The tests among these names, those in classes too."""
    for name, value in names.items():
        if name.startswith("test_"):
            yield value
        elif name.startswith("Test") and isinstance(value, type):
            yield from checks(vars(value))


def decided(rows: tuple[Row, ...]) -> dict[str, Row]:
    """Each decided row once, in the order of the numbers; of several titles the first one counts."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.number, row)
    return {number: first[number] for number in NUMBERS if number in first}


def known_differences() -> frozenset[str]:
    """The numbers that docs/differences.md explains."""
    return frozenset(re.findall(r"^\| (D\d+) \|", DIFFERENCES.read_text(), re.MULTILINE))


def problems(rows: tuple[Row, ...], known: frozenset[str]) -> tuple[str, ...]:
    """Return one sentence for each mistake in these rows, and for each row without a test."""
    verdicts: defaultdict[str, set[tuple[Verdict, str]]] = defaultdict(set)
    for row in rows:
        verdicts[row.number].add((row.verdict, row.because))
    return (
        *(f"{number} has no test" for number in NUMBERS if number not in verdicts),
        *(f"{number} is decided in {len(found)} ways" for number, found in verdicts.items() if len(found) > 1),
        *(problem for row in rows for problem in _problems_of(row, known)),
    )


def _problems_of(row: Row, known: frozenset[str]) -> Iterator[str]:
    if row.number not in NUMBERS:
        yield f"{row.number} is no row of the list"
    if not row.title:
        yield f"{row.number} claims nothing"
    if row.verdict is Verdict.NOT_APPLICABLE and not row.because:
        yield f"{row.number} is not applicable, but does not say why"
    if row.verdict is Verdict.DIFFERS:
        for difference in row.because.split(", "):
            if difference not in known:
                yield f"{row.number} names {difference or 'nothing'}, which docs/differences.md does not know"


def summary(decisions: Mapping[str, Row]) -> str:
    """Return how many rows are decided, and how."""
    count = {verdict: sum(row.verdict is verdict for row in decisions.values()) for verdict in Verdict}
    kinds = (
        f"{count[Verdict.SAME]} same",
        f"{count[Verdict.DIFFERS]} different on purpose",
        f"{count[Verdict.NOT_APPLICABLE]} not applicable",
    )
    return f"{len(decisions)} of {LAST} decided: {', '.join(kinds)}"

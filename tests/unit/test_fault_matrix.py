"""Each row of the fault matrix (tests/chaos/matrix.md) has a test with the mark `fault`, a run, or a reason."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \| (.+) \|(.*)\|(.*)\|$", re.MULTILINE)
MARK = re.compile(r"^ *@pytest\.mark\.fault\(([^)]*)\)$", re.MULTILINE)
#: The families of faults, from crashes (A) to the admission of other controllers (K), and their numbers of rows.
FAMILIES = {"A": 18, "B": 19, "C": 14, "D": 10, "E": 5, "F": 4, "G": 6, "H": 15, "I": 13, "J": 19, "K": 6}
NUMBERS = [f"{letter}{count}" for letter, size in FAMILIES.items() for count in range(1, size + 1)]


def problems(rows: list[tuple[str, ...]], marks: Mapping[str, list[str]], makefile: str) -> Iterator[str]:
    """Yield the problems of rows and marks."""
    for number, _fault, _result, runs, not_covered in rows:
        named = re.findall(r"`make ([a-z-]+)`", runs)
        yield from (f"{number} names make {run}, which does not exist" for run in named if f"\n{run}:" not in makefile)
        if not (named or marks.get(number) or not_covered.strip()):
            yield f"{number} has no test, no run and no reason"
    yield from (f"{place} has an unknown row {number}" for number in marks.keys() - NUMBERS for place in marks[number])


def test_every_row_has_a_test_or_a_run_or_a_reason():
    marks: defaultdict[str, list[str]] = defaultdict(list)
    for path in TESTS.rglob("test_*.py"):
        for mark in MARK.findall(path.read_text()):
            for number in re.findall(r'"(\w+)"', mark):
                marks[number].append(path.relative_to(TESTS).as_posix())
    rows = ROW.findall((TESTS / "chaos" / "matrix.md").read_text())
    assert [number for number, *_ in rows] == NUMBERS
    assert list(problems(rows, marks, (TESTS.parent / "Makefile").read_text())) == []


@pytest.mark.parametrize(
    ("row", "marks", "mistakes"),
    [
        (("A1", "a fault", "a result", " `make chaos` ", " "), {}, 0),
        (("A1", "a fault", "a result", " ", " a reason "), {}, 0),
        (("A1", "a fault", "a result", " ", " "), {"A1": ["test_it.py"]}, 0),
        (("A1", "a fault", "a result", " ", " "), {}, 1),
        (("A1", "a fault", "a result", " `make haste` ", " "), {}, 1),
        (("A1", "a fault", "a result", " `make chaos` ", " "), {"Z1": ["test_it.py"]}, 1),
    ],
)
def test_mistakes_are_found(row: tuple[str, ...], marks: dict[str, list[str]], mistakes: int):
    assert len(list(problems([row], marks, "\nchaos:\n"))) == mistakes

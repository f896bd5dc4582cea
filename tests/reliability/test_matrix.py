"""Each row of the fault matrix names tests and runs that exist, or a reason why there are none."""

from __future__ import annotations

from dataclasses import replace

from .matrix import FILE, Row, problems, rows

HERE = "reliability/test_matrix.py"


def test_every_row_names_existing_tests_or_a_reason() -> None:
    assert problems(rows(FILE.read_text())) == ()


def test_mistakes_in_a_row_are_reported() -> None:
    whole = rows(FILE.read_text())

    def complaints(**wrong: object) -> list[str]:
        first = replace(Row("A1", "a fault", "holds", not_here="because"), **wrong)
        return [problem for problem in problems((first, *whole[1:])) if problem.startswith("A1 ")]

    assert complaints() == []
    assert complaints(shown=(f"{HERE}::test_mistakes_in_a_row_are_reported", "make check"), not_here="") == []
    assert complaints(shown=(f"{HERE}::test_nothing",), not_here="") != []
    assert complaints(shown=("nowhere/test_it.py::test_it",), not_here="") != []
    assert complaints(shown=("make haste",), not_here="") != []
    assert complaints(shown=("make check",)) != []
    assert complaints(not_here="") != []
    assert complaints(but="not all") != []


def test_a_missing_row_is_reported() -> None:
    assert problems(rows(FILE.read_text())[1:])[0].startswith("the rows are not")

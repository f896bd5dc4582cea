"""The matrix answers every row, and what it names is there."""

from __future__ import annotations

from dataclasses import replace

from .matrix import FILE, Row, problems, rows

HERE = "reliability/test_matrix.py"


def test_every_row_is_answered_by_what_there_is() -> None:
    assert problems(rows(FILE.read_text())) == ()


def test_what_is_wrong_with_a_row_is_named() -> None:
    whole = rows(FILE.read_text())

    def complaints(**wrong: object) -> list[str]:
        first = replace(Row("A1", "a fault", "holds", not_here="because"), **wrong)
        return [problem for problem in problems((first, *whole[1:])) if problem.startswith("A1 ")]

    assert complaints() == []
    assert complaints(shown=(f"{HERE}::test_what_is_wrong_with_a_row_is_named", "make check"), not_here="") == []
    assert complaints(shown=(f"{HERE}::test_nothing",), not_here="") != []
    assert complaints(shown=("nowhere/test_it.py::test_it",), not_here="") != []
    assert complaints(shown=("make haste",), not_here="") != []
    assert complaints(shown=("make check",)) != []
    assert complaints(not_here="") != []
    assert complaints(but="not all") != []


def test_a_row_that_is_missing_is_noticed() -> None:
    assert problems(rows(FILE.read_text())[1:])[0].startswith("the rows are not")

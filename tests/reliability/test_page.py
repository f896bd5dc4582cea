"""The page says what the matrix and the runs say, and is as fresh as they are."""

from __future__ import annotations

import pytest

from .figures import Run, lines, runs
from .matrix import FILE, Row, rows
from .page import PAGE, text


def test_the_page_is_up_to_date() -> None:
    current = PAGE.read_text() == text(rows(FILE.read_text()), runs())
    assert current, "PYTHONPATH=tests python -m reliability"


def test_a_row_names_its_tests_or_says_why_not() -> None:
    found = (
        Row("A1", "it|dies", "lives", ("a/test_b.py::test_it_lives", "make chaos")),
        Row("A2", "", "", not_here="x"),
    )
    page = text(found, {})
    assert "| A1 | it\\|dies | lives | [it lives](../tests/a/test_b.py)<br>`make chaos` |" in page
    assert "| not here: x |" in page
    assert "has 2 rows. Shown here: 1. Not here, and each says why: 1." in page


def test_a_run_that_nobody_explains_has_no_place() -> None:
    with pytest.raises(KeyError, match="guesswork"):
        text((), {"guesswork": Run("guesswork", "", "", {})})


def test_single_figures_come_first_and_records_are_tables() -> None:
    found = {"points": 1234, "took": {"p50_s": 0.5}, "killed": [{"id": "P1", "by": "a|b"}, {"id": "P2", "level": 3}]}
    assert "\n".join(lines(found)).split("\n") == [
        "| figure | |",
        "|---|---|",
        "| points | 1,234 |",
        "| took: p50 s | 0.5 |",
        "",
        "**Killed**",
        "",
        "| id | by | level |",
        "|---|---|---|",
        "| P1 | a\\|b | - |",
        "| P2 | - | 3 |",
        "",
    ]

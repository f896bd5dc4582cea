"""Each row of the conformance list has a test, and no row has two verdicts."""

from __future__ import annotations

import pytest

from .register import checks, claims, known_differences, problems
from .report import Outcomes, table
from .row import Row, Verdict, differs, marked, same

KNOWN = frozenset(("D1", "D2"))
SAME = Row("TO-001", Verdict.SAME, "a title")


def mistakes(rows: tuple[Row, ...]) -> list[str]:
    """Return the mistakes in these rows, apart from the missing ones."""
    return [problem for problem in problems(rows, KNOWN) if not problem.endswith("has no test")]


def test_each_row_is_decided_in_one_way_and_with_a_reason():
    assert problems(claims(), known_differences()) == ()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((Row("TO-267", Verdict.SAME, "a title"),), "TO-267 is no row"),
        ((Row("TO-001", Verdict.SAME, ""),), "TO-001 claims nothing"),
        ((SAME, Row("TO-001", Verdict.DIFFERS, "a title", "D1")), "TO-001 is decided in 2 ways"),
        ((Row("TO-001", Verdict.DIFFERS, "a title", "D9"),), "TO-001 names D9"),
        ((Row("TO-001", Verdict.DIFFERS, "a title", "D1, D9"),), "TO-001 names D9"),
        ((Row("TO-001", Verdict.DIFFERS, "a title"),), "TO-001 names nothing"),
        ((Row("TO-001", Verdict.NOT_APPLICABLE, "a title"),), "does not say why"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(rows: tuple[Row, ...], words: str):
    (problem,) = mistakes(rows)
    assert words in problem


def test_several_tests_may_decide_a_row_in_the_same_way():
    assert mistakes((SAME, SAME, Row("TO-002", Verdict.DIFFERS, "a title", "D1, D2"))) == []


def test_a_row_without_a_test_is_reported():
    assert "TO-002 has no test" in problems((SAME,), KNOWN)


def test_rows_are_found_on_a_test_and_on_its_cases():
    @same("TO-001", "one")
    @pytest.mark.parametrize("case", [pytest.param(1, marks=differs("TO-002", "D1", "two")), 2])
    @same("TO-003", "three")
    def a_test(case: int) -> None:
        del case

    assert {row.number for row in marked(a_test.pytestmark)} == {"TO-001", "TO-002", "TO-003"}


def test_tests_in_classes_count_too():
    class TestMore:
        test_two = "two"
        helper = "none"

    assert list(checks({"test_one": "one", "TestMore": TestMore, "Test": "no class"})) == ["one", "two"]


def test_a_row_has_passed_when_all_its_tests_have():
    class Report:
        failed = skipped = False
        when = "call"
        nodeid = "a"

    outcomes = Outcomes()
    outcomes._rows = {"a": frozenset(("TO-001",))}
    assert outcomes.of("TO-001") == "not run"
    outcomes.pytest_runtest_logreport(Report())
    assert outcomes.of("TO-001") == "passed"
    assert "TO-001  same            passed   a title" in list(table({"TO-001": SAME}, outcomes))
    Report.failed = True
    outcomes.pytest_runtest_logreport(Report())
    assert outcomes.of("TO-001") == "FAILED"

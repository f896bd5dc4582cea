"""What became of the tests of each row, and the table that says it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from .register import open_rows, ranges, summary
from .row import Row, Verdict, marked


class Outcomes:
    """A plugin of pytest that listens: the outcome of each test, by the rows that it decides."""

    def __init__(self) -> None:
        self._rows: dict[str, frozenset[str]] = {}
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which rows each test decides, before some are left out."""
        for item in items:
            marks = list(item.iter_markers("row"))
            self._rows[item.nodeid] = frozenset(row.number for row in marked(marks))
            for number in self._rows[item.nodeid]:
                self._outcomes[number].add("not run")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test went."""
        for number in self._rows.get(report.nodeid, ()):
            self._outcomes[number].discard("not run")
            if report.failed or hasattr(report, "wasxfail"):
                self._outcomes[number].add("FAILED")
            elif report.skipped:
                self._outcomes[number].add("skipped")
            elif report.when == "call":
                self._outcomes[number].add("passed")

    def of(self, number: str) -> str:
        """The outcome of a row: passed only if all its tests have."""
        found = self._outcomes[number] or {"not run"}
        return next(outcome for outcome in ("FAILED", "skipped", "not run", "passed") if outcome in found)


def table(decisions: Mapping[str, Row], outcomes: Outcomes) -> Iterator[str]:
    """Line by line: number, verdict, outcome, the claim, and why it is not v1's."""
    counts: defaultdict[str, int] = defaultdict(int)
    for number, row in decisions.items():
        outcome = "-" if row.verdict is Verdict.NOT_APPLICABLE else outcomes.of(number)
        counts[outcome] += 1
        because = f" [{row.because}]" if row.because else ""
        yield f"{number}  {row.verdict:<14}  {outcome:<7}  {row.title}{because}"
    if missing := open_rows(decisions):
        yield f"open: {ranges(missing)}"
    yield f"{summary(decisions)}; {', '.join(f'{n} {outcome}' for outcome, n in counts.items() if outcome != '-')}"

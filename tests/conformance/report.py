"""The page docs/conformance.md, and the table of rows with the outcome of their tests."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import pytest

from .register import DIFFERENCES, HERE, LAST, NUMBERS, SECTIONS, summary
from .row import Row, Verdict, marked

PAGE = DIFFERENCES.with_name("conformance.md")
HEAD = """# Conformance with training-operator v1

Written by `python -m conformance --write`; change the tests in `tests/conformance/` instead.

The behaviour of training-operator 1.9 in {last} rows, and what became of each. Whether it is the same or different on
purpose, a test on a real API server shows it; different rows name their line in [differences.md](differences.md).
`make conformance` runs all of them and prints this table with the outcome.

{summary}.
"""
#: The outcomes of the SDK's own tests, which their last run has written.
SUITE = HERE / "sdk_suite.toml"
SUITE_HEAD = """## The SDK's own end-to-end tests

The wheel of `kubeflow-training` 1.9.4 brings end-to-end tests of all six kinds. `make test-sdk-suite` runs
them unmodified on kind, without a gang scheduler and with the real Volcano. Where no registry can be reached, images of
the same names train the models of the [examples](../examples/README.md) on data that they generate. The last run:

| gang scheduler | test | outcome |
|---|---|---|"""


def page(decisions: Mapping[str, Row]) -> str:
    """The content of docs/conformance.md."""
    return "\n".join((HEAD.format(last=LAST, summary=summary(decisions)), *_sections(decisions), *_suite()))


def _suite() -> Iterator[str]:
    yield SUITE_HEAD
    found = tomllib.loads(SUITE.read_text())
    for scheduler, outcomes in found.items():
        yield from (f"| {scheduler} | `{test}` | {outcome} |" for test, outcome in outcomes.items())
    if "volcano" not in found:
        yield "\nNo run of the six tests with Volcano is recorded yet."
    yield ""


def _sections(decisions: Mapping[str, Row]) -> Iterator[str]:
    ends = [*list(SECTIONS.values())[1:], LAST + 1]
    for (title, first), end in zip(SECTIONS.items(), ends, strict=True):
        yield f"## {title}\n"
        yield "| row | | claim | why |\n|---|---|---|---|"
        yield from (_line(decisions[number]) for number in NUMBERS[first - 1 : end - 1])
        yield ""


def _line(row: Row) -> str:
    because = row.because
    if row.verdict is Verdict.DIFFERS:
        because = ", ".join(f"[{difference}](differences.md)" for difference in row.because.split(", "))
    cells = (row.number, str(row.verdict), row.title, because)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("|  |", "| |")


class Outcomes:
    """A pytest plugin that records the outcome of the tests of each row."""

    def __init__(self) -> None:
        self._rows: dict[str, frozenset[str]] = {}
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Record the rows of each test, before pytest deselects some."""
        for item in items:
            self._rows[item.nodeid] = frozenset(row.number for row in marked(list(item.iter_markers("row"))))
            for number in self._rows[item.nodeid]:
                self._outcomes[number].add("not run")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test."""
        for number in self._rows.get(report.nodeid, ()):
            self._outcomes[number].discard("not run")
            if report.failed or hasattr(report, "wasxfail"):
                self._outcomes[number].add("FAILED")
            elif report.skipped:
                self._outcomes[number].add("skipped")
            elif report.when == "call":
                self._outcomes[number].add("passed")

    def of(self, number: str) -> str:
        """The outcome of a row: `passed` only if all its tests passed."""
        found = self._outcomes[number] or {"not run"}
        return next(outcome for outcome in ("FAILED", "skipped", "not run", "passed") if outcome in found)


def table(decisions: Mapping[str, Row], outcomes: Outcomes) -> Iterator[str]:
    """One line for each row: number, verdict, outcome, claim, and the reason of a difference."""
    counts: Counter[str] = Counter()
    for number, row in decisions.items():
        outcome = "-" if row.verdict is Verdict.NOT_APPLICABLE else outcomes.of(number)
        counts[outcome] += 1
        yield f"{number}  {row.verdict:<14}  {outcome:<7}  {row.title}{f' [{row.because}]' if row.because else ''}"
    yield f"{summary(decisions)}; {', '.join(f'{n} {outcome}' for outcome, n in counts.items() if outcome != '-')}"

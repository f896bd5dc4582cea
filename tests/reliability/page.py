"""The page docs/reliability.md, made from the fault matrix and the figures of the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .figures import Run, lines
from .matrix import FAMILIES, TESTS, Row

PAGE = TESTS.parent / "docs" / "reliability.md"
WORDS = Path(__file__).with_name("words.txt")
#: What each run does, in the order of the page; a run that nobody explains has no place on it.
RUNS = {
    "faults": "Fault plans on a real API server: each write of each workload, struck in every way",
    "simulate": "Random schedules in the simulation: users, kubelets, faults, crashes and two replicas by a seed",
    "exhaustive": "Small worlds in the simulation, in every order of events that can be told apart",
    "sim-conformance": "The simulated API server beside the real one: the same calls, the same answers",
    "mutants": "Bugs put in on purpose, and who found them",
    "leaders": "Leaders that die, freeze, and are cut off",
    "outage": "The API server away",
    "soak": "Hours of small jobs and random faults, with two replicas",
    "finished": "10,000 jobs that are over",
}


def text(found: tuple[Row, ...], ran: Mapping[str, Run]) -> str:
    """The whole page; raises `KeyError` for a run that `RUNS` does not explain."""
    ordered = sorted(ran.values(), key=lambda run: list(RUNS).index(run.name) if run.name in RUNS else RUNS[run.name])
    shown = sum(1 for row in found if row.shown)
    words = WORDS.read_text().format(rows=len(found), shown=shown, rest=len(found) - shown)
    return "\n".join((words, *(line for run in ordered for line in _run(run)), *_matrix(found)))


def _run(run: Run) -> Iterator[str]:
    yield f"### {RUNS[run.name]}\n"
    yield f"`{run.command}`, {run.date}\n"
    yield from lines(run.found)


def _matrix(found: tuple[Row, ...]) -> Iterator[str]:
    yield "## The fault matrix\n"
    for letter, (title, _) in FAMILIES.items():
        yield f"### {letter}. {title}\n"
        yield "| | fault | what holds | shown by |\n|---|---|---|---|"
        yield from (_line(row) for row in found if row.number[0] == letter)
        yield ""


def _line(row: Row) -> str:
    answer = "<br>".join(_link(name) for name in row.shown) or f"not here: {row.not_here}"
    cells = (row.number, row.fault, row.holds, f"{answer}; but {row.but}" if row.but else answer)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _link(name: str) -> str:
    file, _, test = name.partition("::")
    return f"[{test.removeprefix('test_').replace('_', ' ')}](../tests/{file})" if test else f"`{name}`"

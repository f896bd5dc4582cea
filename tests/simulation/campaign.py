"""Batches of random schedules, drawn by the strategies; Hypothesis shrinks the first in a batch that breaks a promise.

The strategies get their choices from random bytes: Hypothesis's own generator varies earlier schedules, and of 400 that
it drew 114 were duplicates. The number of a batch seeds the bytes, so it can be repeated, and a campaign continues
where it was stopped. A schedule that has found a bug is kept in `test_found_schedules.py`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.database import InMemoryExampleDatabase

from support.results import keep, kept
from testbed.places import ROOT, digest

from .runner import Report, run
from .schedule import Schedule
from .strategies import schedules

#: The number of schedules in a batch.
BATCH = 200
#: The number of bytes from which a schedule is drawn: more than the longest takes.
BYTES = 4096
#: The folders of the code that the results depend on.
CODE = ("operator/trainshed", "tests/simulation", "tests/support")
#: How to repeat a batch; the schedule that fails is printed as Python code.
REPEAT = "PYTHONPATH=tests:hack python -m simulation --batch {}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a batch; `failing` is the first schedule that breaks a promise, or the smallest, and its report."""

    number: int
    schedules: int
    sums: Counter[str]
    failing: tuple[Schedule, Report] | None = None


@dataclass(slots=True)
class Progress:
    """The results so far; `next` is the first batch that has not run, `seconds` is the time it all took."""

    next: int = 0
    schedules: int = 0
    failing: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    sums: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, file: Path) -> Progress:
        """Return the progress in a file; none if there is no file, or if it is about other code."""
        found = kept(file)
        if found.get("code") != code_digest():
            return cls()
        return cls(found["next_batch"], found["schedules"], found["failing"], found["seconds"], Counter(found["sums"]))

    def write(self, file: Path, command: str) -> None:
        """Write the progress to a file, from which `read` continues."""
        figures = {
            "code": code_digest(),
            "schedules": self.schedules,
            "violations": len(self.failing),
            "next_batch": self.next,
            "seconds": self.seconds,
            "schedules_per_second": round(self.schedules / max(self.seconds, 0.1), 1),
            "failing": self.failing,
            "sums": dict(sorted(self.sums.items())),
        }
        keep(file, command, figures)

    def add(self, batch: Batch) -> None:
        """Add the result of the next batch."""
        self.next, self.schedules = batch.number + 1, self.schedules + batch.schedules
        self.sums.update(batch.sums)
        if batch.failing:
            self.failing[str(batch.number)] = str(batch.failing[1].violations[0])


@functools.cache
def code_digest() -> str:
    """Return a digest of the code that the results depend on: the operator and the tests, the simulation among them."""
    files = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    return digest(b"".join(path.read_bytes() for path in files))


def run_campaign(count: int, processes: int, progress: Progress, report: Callable[[Progress], None]) -> None:
    """Run batches until `count` schedules were run, and report after each."""
    began, before = time.monotonic(), progress.seconds
    for batch in _batches(range(progress.next, -(-count // BATCH)), processes):
        progress.add(batch)
        progress.seconds = round(before + time.monotonic() - began, 1)
        report(progress)


def run_batch(number: int, size: int = BATCH, *, shrink: bool = True) -> Batch:
    """Run the schedules of a batch up to the first that breaks a promise, which Hypothesis then shrinks.

    If it is not to `shrink`, which can take minutes, all schedules of the batch are run.
    """
    sums: Counter[str] = Counter()
    failing: list[tuple[Schedule, Report]] = []

    @settings(
        database=InMemoryExampleDatabase(),
        phases=(Phase.reuse, Phase.shrink),
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    # Shrinking then ends with the same schedule each time. Below `settings`, because `seed` removes the database.
    @seed(number)
    @given(schedules())
    def check(schedule: Schedule) -> None:
        result = run(schedule)
        if not (failing and shrink):
            sums.update({**result.counts, "schedules": 1})
        if result.violations:
            failing.append((schedule, result))
        if result.violations and shrink:
            raise _broken_promise(result.violations[0].oracle)(str(result.violations[0]))

    gc.collect()
    gc.freeze()  # what exists by now stays; a run leaves little behind
    random = Random(number)
    with contextlib.suppress(BrokenPromise):
        while sums["schedules"] < size:
            check.hypothesis.fuzz_one_input(random.randbytes(BYTES))
    if failing and shrink:
        with contextlib.suppress(BrokenPromise):
            check()  # it repeats the failing schedule, and ends with the smallest one
    return Batch(number, sums.pop("schedules"), sums, failing[-1 if shrink else 0] if failing else None)


class BrokenPromise(AssertionError):
    """A schedule has broken a promise."""


@functools.cache
def _broken_promise(oracle: str) -> type[BrokenPromise]:
    """Return the error of an oracle: Hypothesis shrinks to a schedule with the same error."""
    return type(oracle, (BrokenPromise,), {})


def _batches(numbers: range, processes: int) -> Iterator[Batch]:
    run_all = functools.partial(run_batch, shrink=False)
    if processes <= 1:
        yield from map(run_all, numbers)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(run_all, numbers)

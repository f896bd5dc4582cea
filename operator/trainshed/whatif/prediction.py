"""What many runs of a job come to: how they end and when, and what the time of its pods is used for."""

from __future__ import annotations

import math
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import msgspec

from .assumptions import Assumptions, RunEnding, RunResult, Use
from .subject import VirtualJob
from .virtual_run import VirtualRun

#: The runs that a process makes at a time.
PORTION = 10


class Prediction(msgspec.Struct, frozen=True):
    """The runs of a job under the same assumptions."""

    subject: VirtualJob
    assumed: Assumptions
    runs: tuple[RunResult, ...]

    @property
    def endings(self) -> Counter[RunEnding]:
        """How many runs ended in which way."""
        return Counter(run.ending for run in self.runs)

    def share(self, *endings: RunEnding) -> float:
        """Return the share of the runs that ended in one of these ways."""
        return sum(self.endings[ending] for ending in endings) / len(self.runs)

    @property
    def finish_times(self) -> list[float]:
        """The seconds of the runs that succeeded, in ascending order."""
        return sorted(run.seconds for run in self.runs if run.ending is RunEnding.SUCCEEDED)

    @property
    def failures(self) -> list[float]:
        """The failures that each run met, in ascending order."""
        return sorted(float(run.node_failures + run.program_failures) for run in self.runs)

    def mean_use(self, use: Use) -> tuple[float, ...]:
        """Return the mean seconds of each resource, and of pods last, that went to a use."""
        return tuple(
            sum(amounts) / len(self.runs) for amounts in zip(*(run.used[use] for run in self.runs), strict=True)
        )


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """Return the least value that is not exceeded by this share of the values; None if there is no value."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None


class Predictor:
    """Makes predictions, all with the failures of one seed: so two of them differ by their assumptions only."""

    def __init__(self, seed: int, pool: ProcessPoolExecutor | None = None) -> None:
        self._seed = seed
        self._pool = pool

    def predict(self, subject: VirtualJob, assumed: Assumptions, count: int) -> Prediction:
        """Run a job this many times."""
        numbers = [range(first, min(first + PORTION, count)) for first in range(0, count, PORTION)]
        if self._pool is None:
            portions = [_runs(subject, assumed, self._seed, portion) for portion in numbers]
        else:
            waiting = [self._pool.submit(_runs, subject, assumed, self._seed, portion) for portion in numbers]
            portions = [found.result() for found in waiting]
        return Prediction(subject, assumed, tuple(run for portion in portions for run in portion))


@contextmanager
def predictor(seed: int, processes: int) -> Iterator[Predictor]:
    """Yield a predictor that has so many processes, or only this one."""
    if processes == 1:
        yield Predictor(seed)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_ignore_interrupts)
    try:
        yield Predictor(seed, pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that waits for this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _runs(subject: VirtualJob, assumed: Assumptions, seed: int, numbers: range) -> list[RunResult]:
    return [VirtualRun(subject, assumed, seed, number).result() for number in numbers]

"""What many runs of a job come to: how they end and when, and what the time of its pods is used for."""

from __future__ import annotations

import math
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread

import msgspec

from .assumptions import Assumptions, RunEnding, RunResult, Use
from .subject import VirtualJob
from .virtual_run import VirtualRun

#: The runs that a process makes at a time.
PORTION = 10
#: The seconds of a processor for each failure of a run, and for each replica in addition.
EACH_FAILURE, EACH_REPLICA = 1e-3, 35e-6
#: The signals on which a prediction ends.
ENDING = (signal.SIGINT, signal.SIGTERM)


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
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # the calls begin processes, which need all of their input
            waiting = [self._pool.submit(_runs, subject, assumed, self._seed, portion) for portion in numbers]
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            portions = [found.result() for found in waiting]
        return Prediction(subject, assumed, tuple(run for portion in portions for run in portion))


@contextmanager
def predictor(seed: int, processes: int) -> Iterator[Predictor]:
    """Yield a predictor that has so many processes, or only this one."""
    if processes == 1:
        yield Predictor(seed)
        return
    others, before = {*active_children()}, signal.signal(signal.SIGTERM, _end)
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_end_with_parent)
    done = False
    try:
        yield Predictor(seed, pool)
        done = True
    finally:
        for process in () if done else {*active_children()} - others:  # after Ctrl-C: a run may take minutes
            process.kill()
        pool.shutdown(cancel_futures=True)
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    """Leave Ctrl-C to the process that waits for this one, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    Thread(target=_await_parent, daemon=True).start()


def _await_parent() -> None:
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)


def estimated_cost(subject: VirtualJob, assumed: Assumptions, runs: int, compared: int) -> float:
    """Return the seconds of a processor that runs of a job take, and those with which they are compared."""
    policy = subject.job.policy
    failures = until = assumed.likely_failures
    if policy.backoff_limit is not None and assumed.program_failures:
        until = min(until, (policy.backoff_limit + 1) / assumed.program_failures)
    if policy.deadline is not None:
        until = min(until, policy.deadline / assumed.mean_time_between)
    met = runs * (1 + until) + compared * (1 + failures)
    return met * (EACH_FAILURE + EACH_REPLICA * subject.job.size)


def _runs(subject: VirtualJob, assumed: Assumptions, seed: int, numbers: range) -> list[RunResult]:
    return [VirtualRun(subject, assumed, seed, number).result() for number in numbers]

"""Runs the trials of many points, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from .run import Environment
from .trial import Baseline, Outcome, Point, Trial
from .workloads import WORKLOADS, Workload

#: The number of times that two runs of a workload are compared: some status fields depend on the order of events.
TRIES = 3


async def measured(environment: Environment, workload: Workload) -> Baseline:
    """Run a workload twice without a fault; raises AssertionError if it has violations, or never twice the same end."""
    point = Point(workload.name)
    wrong: tuple[str, ...] = ()
    for _ in range(TRIES):
        first = await Trial(environment, workload, point, Baseline()).run()
        baseline = Baseline(first.state, first.writes, first.events)
        again = await Trial(environment, workload, point, baseline).run()
        wrong = (*first.violations, *again.violations)
        if not wrong:
            return baseline
    raise AssertionError(wrong)


async def measured_all(environment: Environment, names: Iterable[str], parallel: int) -> dict[str, Baseline]:
    """The baselines of these workloads, by name."""
    limit = asyncio.Semaphore(parallel)

    async def one(name: str) -> Baseline:
        async with limit:
            return await measured(environment, WORKLOADS[name])

    names = [name for name in WORKLOADS if name in names]
    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


async def outcomes(
    environment: Environment, baselines: dict[str, Baseline], points: Iterable[Point], parallel: int
) -> AsyncIterator[Outcome]:
    """Yield the outcomes of these points as their trials end; cancel the other trials if the caller stops."""
    limit = asyncio.Semaphore(parallel)

    async def one(point: Point) -> Outcome:
        async with limit:
            return await Trial(environment, WORKLOADS[point.workload], point, baselines[point.workload]).run()

    trials = [asyncio.create_task(one(point)) for point in points]
    try:
        for trial in asyncio.as_completed(trials):
            yield await trial
    finally:
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)

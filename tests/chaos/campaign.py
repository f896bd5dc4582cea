"""Runs many points on a few lanes at once; what is done is written down at once, and not done again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path

from .play import Stage
from .trial import Lesson, Outcome, Point, Trial
from .workloads import WORKLOADS, Workload

#: So often it is tried to see two runs of a workload end alike: what a status tells may depend on what was seen.
TRIES = 3


class Diary:
    """The outcomes so far, one a line in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else ()
        self.outcomes = {one.point: one for one in (Outcome(**json.loads(line)) for line in lines)}

    def note(self, outcome: Outcome) -> None:
        """Write an outcome down; how it ended in detail is only of interest while it is judged."""
        short = replace(outcome, likeness={}, writes=(), told={})
        self.outcomes[short.point] = short
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(json.dumps(asdict(short)) + "\n")


async def learn(stage: Stage, workload: Workload) -> Lesson:
    """Run a workload twice without a fault; raises AssertionError if it is never well, or never twice the same."""
    point = Point(workload.name)
    wrong: tuple[str, ...] = ()
    for _ in range(TRIES):
        first = await Trial(stage, workload, point, Lesson(workload.name)).run()
        taught = Lesson(workload.name, first.likeness, first.writes, first.told)
        again = await Trial(stage, workload, point, taught).run()
        wrong = (*first.violations, *again.violations)
        if not wrong:
            return taught
    raise AssertionError(wrong)


async def learn_all(stage: Stage, names: Iterable[str], lanes: int) -> dict[str, Lesson]:
    """The lessons of these workloads, by name."""
    taught: dict[str, Lesson] = {}

    async def one(name: str) -> None:
        taught[name] = await learn(stage, WORKLOADS[name])

    await _in_lanes([lambda name=name: one(name) for name in names], lanes)
    return {name: taught[name] for name in WORKLOADS if name in taught}


async def run(stage: Stage, lessons: dict[str, Lesson], points: Iterable[Point], lanes: int) -> AsyncIterator[Outcome]:
    """The outcomes of these points as they come in; whoever has had enough of them leaves the rest undone."""
    done: asyncio.Queue[Outcome | None] = asyncio.Queue()

    async def one(point: Point) -> None:
        trial = Trial(stage, WORKLOADS[point.workload], point, lessons[point.workload])
        done.put_nowait(await trial.run())

    async def all_of_them() -> None:
        try:
            await _in_lanes([lambda point=point: one(point) for point in points], lanes)
        finally:
            done.put_nowait(None)

    running = asyncio.create_task(all_of_them())
    try:
        while outcome := await done.get():
            yield outcome
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _in_lanes(tasks: Iterable[Callable[[], Awaitable[None]]], lanes: int) -> None:
    waiting = iter(tasks)

    async def lane() -> None:
        for task in waiting:
            await task()

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())

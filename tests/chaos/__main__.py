"""Runs every fault at every point of every workload, says what came of it, and writes the figures down."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane
from trainshed.runtime import EventLoop

from .campaign import Diary, learn_all, run
from .play import stage
from .points import FAMILIES, WATCH, every, spread, together
from .results import lines, write
from .trial import Outcome, Point
from .workloads import WORKLOADS

STATE = Path(__file__).parents[2] / "build" / "faults"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be run: which workloads, and which faults or families of faults; `some` as in CI; until when."""

    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    some: bool
    singly: bool
    again: bool
    until: float

    def wants(self, point: Point, known: Outcome | None) -> bool:
        """Whether a point is to be run, given what came of it before."""
        chosen = not self.faults or point.fault in self.faults or FAMILIES[point.fault] in self.faults
        return chosen and (known is None or (self.again and bool(known.violations)))


@click.command()
@click.option("--lanes", default=3, show_default=True, help="Trials at a time.")
@click.option("--minutes", default=0.0, help="Stop after so many minutes; the rest is done the next time.")
@click.option("--fault", "faults", multiple=True, help="Only this fault, or only crash, answer or watch points.")
@click.option("--some", is_flag=True, help="Only one point of each fault for each workload, as in CI.")
@click.option("--singly", is_flag=True, help="Each point in a trial of its own: hours, and it says which is at fault.")
@click.option("--again", is_flag=True, help="Run the points anew that had violations.")
@click.option("--fresh", is_flag=True, help="Forget what was done before.")
@click.option("--report", is_flag=True, help="Run nothing: say what is known, and write the figures.")
@click.argument("workloads", nargs=-1)
def main(lanes: int, minutes: float, *, fresh: bool, report: bool, **wish) -> None:
    """Run the points of WORKLOADS, or of all, that have not been run yet."""
    file = STATE / "outcomes.jsonl"
    if fresh:
        file.unlink(missing_ok=True)
    diary = Diary(file)
    if not report:
        wanted = Wish(until=time.time() + minutes * 60 if minutes else float("inf"), **wish)
        with (
            tempfile.TemporaryDirectory() as folder,
            ready_control_plane(Path(folder), audit=False) as plane,
            asyncio.Runner(loop_factory=EventLoop) as runner,
        ):
            runner.run(_go(plane, diary, wanted, lanes))
    for line in lines(diary.outcomes.values()):
        click.echo(line)
    write(diary.outcomes.values())
    sys.exit(any(one.violations for one in diary.outcomes.values()))


async def _go(plane: ControlPlane, diary: Diary, wish: Wish, lanes: int) -> None:
    async with stage(plane, STATE / str(os.getpid())) as found:
        lessons = await learn_all(found, wish.workloads or tuple(WORKLOADS), lanes)
        for taught in lessons.values():
            click.echo(f"{taught.workload}: {len(taught.writes)} writes, {sum(taught.told.values())} events")
        points = [
            one
            for turn, taught in enumerate(lessons.values())
            for one in (spread(taught, turn) if wish.some else every(taught) if wish.singly else together(taught))
        ]
        todo = [one for one in points if wish.wants(one, diary.outcomes.get(str(one)))]
        chance = random.Random(1)  # in an order in which half of them say something about all, and most about writes
        todo.sort(key=lambda point: chance.random() * (3 if FAMILIES[point.fault] == WATCH else 1))
        click.echo(f"{len(todo)} of {len(points)} trials to go")
        async for outcome in run(found, lessons, todo, lanes):
            diary.note(outcome)
            if outcome.violations:
                click.echo("\n    ".join((f"{outcome.point} at {outcome.at}", *outcome.violations)))
            if time.time() > wish.until:
                break


if __name__ == "__main__":
    main()

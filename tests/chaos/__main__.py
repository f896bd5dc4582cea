"""Injects every fault at every point of every workload, and writes the results."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane
from trainshed.event_loop import EventLoop

from .campaign import measured_all, outcomes
from .points import FAMILIES, WATCH, combined, sample, single
from .results import Outcomes, lines, write
from .run import environment
from .trial import Point
from .workloads import WORKLOADS

STATE = Path(__file__).parents[2] / "build" / "faults"


@click.command()
@click.option("--parallel", default=3, show_default=True, help="Trials at a time.")
@click.option("--minutes", default=float("inf"), help="Stop after so many minutes; the next run does the rest.")
@click.option("--fault", "faults", multiple=True, help="Only this fault, or only crash, answer or watch points.")
@click.option("--sample", "mode", flag_value="sample", help="Only one point of each fault for each workload, as in CI.")
@click.option("--single", "mode", flag_value="single", help="Each point in a trial of its own; takes hours.")
@click.option("--again", is_flag=True, help="Repeat the points that had violations.")
@click.option("--fresh", is_flag=True, help="Discard the earlier outcomes.")
@click.option("--report", is_flag=True, help="Run nothing; print and write the earlier outcomes.")
@click.argument("workloads", nargs=-1)
def main(
    parallel: int, minutes: float, faults: tuple[str, ...], mode: str | None, workloads: tuple[str, ...], **flags: bool
) -> None:
    """Run the points of WORKLOADS, or of all, that have not been run yet."""
    file = STATE / "outcomes.jsonl"
    if flags["fresh"]:
        file.unlink(missing_ok=True)
    found = Outcomes(file)

    def wanted(point: Point) -> bool:
        known = found.get(str(point))
        chosen = not faults or point.fault in faults or FAMILIES[point.fault] in faults
        return chosen and (known is None or (flags["again"] and bool(known.violations)))

    if not flags["report"]:
        with (
            tempfile.TemporaryDirectory() as folder,
            ready_control_plane(Path(folder), audit=False) as plane,
            asyncio.Runner(loop_factory=EventLoop) as runner,
        ):
            campaign = Campaign(mode or "", wanted, parallel, time.time() + minutes * 60)
            runner.run(campaign.run(plane, workloads or tuple(WORKLOADS), found))
    for line in lines(found.values()):
        click.echo(line)
    write(found.values())
    sys.exit(any(one.violations for one in found.values()))


class Campaign:
    """The trials of the points that are `wanted`, until a time of the clock."""

    def __init__(self, mode: str, wanted: Callable[[Point], bool], parallel: int, until: float) -> None:
        self._mode, self._wanted, self._parallel, self._until = mode, wanted, parallel, until

    async def run(self, plane: ControlPlane, workloads: tuple[str, ...], found: Outcomes) -> None:
        """Run them in random order, most of the watch points last."""
        async with environment(plane, STATE / str(os.getpid())) as env:
            baselines = await measured_all(env, workloads, self._parallel)
            points: list[Point] = []
            for turn, (name, baseline) in enumerate(baselines.items()):
                click.echo(f"{name}: {len(baseline.writes)} writes, {sum(baseline.events.values())} events")
                kind = single if self._mode == "single" else combined
                points += sample(name, baseline, turn) if self._mode == "sample" else kind(name, baseline)
            todo = [point for point in points if self._wanted(point)]
            chance = random.Random(1)
            todo.sort(key=lambda point: chance.random() * (3 if FAMILIES[point.fault] == WATCH else 1))
            click.echo(f"{len(todo)} of {len(points)} trials")
            async for outcome in outcomes(env, baselines, todo, self._parallel):
                found.add(outcome)
                if outcome.violations:
                    click.echo("\n    ".join((f"{outcome.point} at {outcome.at}", *outcome.violations)))
                if time.time() > self._until:
                    break


if __name__ == "__main__":
    main()

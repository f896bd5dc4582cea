"""Plays random schedules in the simulation: `python -m simulation --seeds 0:100000 --processes 2 --state FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .campaign import Progress, run
from .drawing import draw
from .play import play
from .schedule import literal
from .shrinking import shrunk


@click.command()
@click.option("--seeds", default="0:1000", show_default=True, help="From which seed up to which, the last left out.")
@click.option("--processes", default=1, show_default=True, help="On how many processors.")
@click.option("--state", type=click.Path(path_type=Path), help="Where to go on from, and to keep what was found.")
@click.option("--seed", type=int, help="Play this one, tell all that happens, and shrink it if it fails.")
def main(seeds: str, processes: int, state: Path | None, seed: int | None) -> None:
    """Play schedules; 1 if a promise was broken."""
    if seed is not None:
        sys.exit(_one(seed))
    first, _, last = seeds.partition(":")
    progress = Progress.read(state) if state else Progress()

    def told(so_far: Progress) -> None:
        if state:
            so_far.write(state, f"make simulate N={last}")
        pace = so_far.schedules / max(so_far.seconds, 0.1)
        click.echo(f"{so_far.schedules:,} schedules, {len(so_far.failing)} failing, {pace:.0f} a second", err=True)

    run(range(int(first), int(last)), processes, progress, told)
    for number, sentence in progress.failing.items():
        click.echo(f"seed {number}: {sentence}\n  PYTHONPATH=tests:hack python -m simulation --seed {number}")
    sys.exit(1 if progress.failing else 0)


def _one(seed: int) -> int:
    schedule = draw(seed)
    report = play(schedule)
    click.echo("\n".join(report.trace))
    if not report.violations:
        click.echo(f"seed {seed} breaks nothing")
        return 0
    click.echo("\n".join(map(str, report.violations)))
    kinds = {found.oracle for found in report.violations}
    small = shrunk(schedule, lambda other: bool(kinds & {found.oracle for found in play(other).violations}))
    click.echo(f"\nThe smallest that fails as well:\n\n{literal(small)}\n")
    click.echo("\n".join(map(str, play(small).violations)))
    return 1


if __name__ == "__main__":
    main()

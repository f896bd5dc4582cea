"""Runs random schedules in the simulation: `python -m simulation --schedules 100000 --processes 2 --state FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .campaign import REPEAT, Progress, run_batch, run_campaign
from .schedule import literal


@click.command()
@click.option("--schedules", default=1000, show_default=True, help="Run this number of schedules, in batches of 200.")
@click.option("--processes", default=1, show_default=True, help="Run this number of batches at a time.")
@click.option(
    "--state", type=click.Path(path_type=Path), help="Continue with the results in this file, of the same code."
)
@click.option("--batch", type=int, help="Run only this batch, and print the schedule that fails and all that happens.")
def main(schedules: int, processes: int, state: Path | None, batch: int | None) -> None:
    """Run schedules; the exit status is 1 if a promise was broken."""
    if batch is not None:
        sys.exit(_repeat(batch))
    progress = Progress.read(state) if state else Progress()
    if state and state.exists() and not progress.schedules:
        click.echo(f"{state} has the results of other code: starting with the first schedule", err=True)

    def report(so_far: Progress) -> None:
        if state:
            so_far.write(state, f"make simulate N={schedules}")
        pace = so_far.schedules / max(so_far.seconds, 0.1)
        click.echo(f"{so_far.schedules:,} schedules, {len(so_far.failing)} failing, {pace:.0f} a second", err=True)

    run_campaign(schedules, processes, progress, report)
    for number, sentence in progress.failing.items():
        click.echo(f"batch {number}: {sentence}\n  {REPEAT.format(number)}")
    sys.exit(1 if progress.failing else 0)


def _repeat(number: int) -> int:
    found = run_batch(number).failing
    if found is None:
        click.echo(f"batch {number} breaks no promise")
        return 0
    schedule, report = found
    click.echo("\n".join(report.trace))
    click.echo("\n".join(map(str, report.violations)))
    click.echo(f"\nThe smallest schedule found that fails:\n\n{literal(schedule)}")
    return 1


if __name__ == "__main__":
    main()

"""Searches the small worlds, from the smallest on, and writes down what it found."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from reliability.results import keep, kept, place
from testbed.places import state

from .scenarios import SCENARIOS
from .tree import Found, Search

RESULTS = place("exhaustive")
TOLD = 5


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="For each world at the most.")
@click.option("--processes", default=2, show_default=True)
@click.option("--only", default="", help="The worlds whose names contain this.")
@click.option("--write", is_flag=True, help="Write the results to build/results; keep those of other worlds.")
def main(*, minutes: float, processes: int, only: str, write: bool) -> None:
    """Search every order of events; a world that was broken off before is gone on with."""
    wrong = False
    for scenario in (scenario for scenario in SCENARIOS if only in scenario.name):
        found = Search(scenario, processes, minutes * 60, home=state() / "search").run()
        click.echo(_line(found))
        for one in sorted(found.wrong, key=len)[:TOLD]:
            click.echo(f"  {one}")
        wrong |= bool(found.wrong)
        if write:
            replace(found, RESULTS)
    sys.exit(wrong)


def replace(found: Found, results: Path) -> None:
    """Put the figures of a world in the place of those that there are of it; of worlds that are no more none stay."""
    known = {world["world"]: world for world in kept(results).get("worlds", ())} | {found.scenario: _columns(found)}
    worlds = [known[scenario.name] for scenario in SCENARIOS if scenario.name in known]
    keep(results, "make model-check", {"worlds": worlds})


def _line(found: Found) -> str:
    whole = "all of it" if found.whole else "NOT all of it, for want of time"
    return (
        f"{found.scenario}: {found.states:,} states, {found.moves:,} moves, {found.ends:,} ends,"
        f" {found.longest} moves at the most, {whole},"
        f" {len(found.wrong)} violations, {found.seconds:.0f} s"
    )


def _columns(found: Found) -> dict[str, str | int | float]:
    return {
        "world": found.scenario,
        "date": datetime.now(UTC).date().isoformat(),
        "states": found.states,
        "moves": found.moves,
        "ends": found.ends,
        "longest_path": found.longest,
        "complete": found.whole,
        "violations": len(found.wrong),
        "seconds": found.seconds,
    }


if __name__ == "__main__":
    main()

"""Searches the small worlds, from the smallest on, and writes down what it found."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from .scenarios import SCENARIOS
from .tree import Found, Search

RESULTS = Path(__file__).parents[1] / "faults" / "results" / "exhaustive.toml"
TOLD = 5


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="For each world at the most.")
@click.option("--processes", default=2, show_default=True)
@click.option("--only", default="", help="The worlds whose names contain this.")
@click.option("--write", is_flag=True, help="Keep the figures for docs/reliability.md.")
def main(*, minutes: float, processes: int, only: str, write: bool) -> None:
    """Search every order of events."""
    found: list[Found] = []
    for scenario in (scenario for scenario in SCENARIOS if only in scenario.name):
        found.append(Search(scenario, processes, minutes * 60).run())
        click.echo(_line(found[-1]))
        for wrong in sorted(found[-1].wrong, key=len)[:TOLD]:
            click.echo(f"  {wrong}")
        if write:
            RESULTS.write_text(_toml(found, f"make exhaustive MINUTES={minutes:g}"))
    sys.exit(1 if any(one.wrong for one in found) else 0)


def _line(found: Found) -> str:
    whole = "all of it" if found.whole else "NOT all of it, for want of time"
    return (
        f"{found.scenario}: {found.states:,} states, {found.moves:,} moves, {found.ends:,} ends, {whole},"
        f" {len(found.wrong)} violations, {found.seconds:.0f} s"
    )


def _toml(found: list[Found], command: str) -> str:
    head = {"command": command, "date": datetime.now(UTC).date().isoformat()}
    lines = [f"{key} = {json.dumps(value)}" for key, value in head.items()]
    for one in found:
        columns = {
            "world": one.scenario,
            "states": one.states,
            "moves": one.moves,
            "ends": one.ends,
            "longest_path": one.longest,
            "complete": one.whole,
            "violations": len(one.wrong),
            "seconds": one.seconds,
        }
        lines += ["", "[[worlds]]", *(f"{key} = {json.dumps(value)}" for key, value in columns.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

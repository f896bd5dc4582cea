"""Writes docs/reliability.md from the fault matrix and the runs' figures; --check fails when it is stale."""

from __future__ import annotations

import sys

import click

from .figures import runs
from .matrix import FILE, problems, rows
from .page import PAGE, text


@click.command()
@click.option("--check", is_flag=True, help="Fail if docs/reliability.md is stale, or a row unanswered; write nothing.")
def main(*, check: bool) -> None:
    """Make the page."""
    found = rows(FILE.read_text())
    wrong = problems(found)
    for problem in wrong:
        click.echo(problem)
    wanted = text(found, runs())
    fresh = PAGE.exists() and PAGE.read_text() == wanted
    if not (fresh or check):
        PAGE.write_text(wanted)
        click.echo(f"{PAGE.name} written")
    if check and not fresh:
        click.echo(f"{PAGE.name} is stale: PYTHONPATH=tests python -m reliability")
    sys.exit(1 if wrong or (check and not fresh) else 0)


if __name__ == "__main__":
    main()

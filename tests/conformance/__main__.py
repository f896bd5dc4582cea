"""Runs the conformance tests and prints the table of rows; --write and --check only handle docs/conformance.md."""

from __future__ import annotations

import sys

import click
import pytest

from .register import HERE, claims, decided
from .report import PAGE, Outcomes, page, table


@click.command()
@click.option("--write", is_flag=True, help="Write docs/conformance.md; run nothing.")
@click.option("--check", is_flag=True, help="Fail if docs/conformance.md is stale; run nothing.")
@click.option("--rings", default="apiserver", help="Which tests to run, as in `pytest -m`.", show_default=True)
@click.argument("words", nargs=-1)
def main(*, write: bool, check: bool, rings: str, words: tuple[str, ...]) -> None:
    """Run the rows on a real API server; WORDS go to pytest."""
    if not (write or check):
        _run(rings, words)
    wanted = page(decided(claims()))
    if PAGE.exists() and PAGE.read_text() == wanted:
        return
    if check:
        click.echo(f"{PAGE.name} is stale: PYTHONPATH=tests:hack python -m conformance --write")
        sys.exit(1)
    PAGE.write_text(wanted)
    click.echo(f"{PAGE.name} written")


def _run(rings: str, words: tuple[str, ...]) -> None:
    outcomes = Outcomes()
    code = pytest.main([str(HERE), "-q", "-m", rings, *words], plugins=[outcomes])
    for line in table(decided(claims()), outcomes):
        click.echo(line)
    sys.exit(code)


if __name__ == "__main__":
    main()

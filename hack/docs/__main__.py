"""Writes the pictures of docs/ and the generated parts of its pages; --check fails if one is stale."""

from __future__ import annotations

import sys

import click

from .written import stale


@click.command()
@click.option("--check", is_flag=True, help="Fail if a file is stale; write nothing.")
def main(*, check: bool) -> None:
    """Update the generated parts of docs/."""
    found = stale()
    for path, text in found.items():
        click.echo(f"{path.name} {'is stale: PYTHONPATH=tests:hack python -m docs' if check else 'written'}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    sys.exit(1 if check and found else 0)


if __name__ == "__main__":
    main()

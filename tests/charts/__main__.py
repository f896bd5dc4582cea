"""`python -m charts`: writes what is made from the chart; with --check it says what is stale, and fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from bed.places import ROOT
from bed.steps import StepFailed, fail

from . import overlays, snapshots, values


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is made, and what is to be in it: values first, since the others are rendered with them."""
    yield values.VALUES, values.values_file()
    yield values.README, values.readme()
    yield from overlays.files()
    yield from snapshots.files()


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if something is stale.")
def main(*, check: bool) -> None:
    """Write values.yaml, the chart's README, manifests/ and the snapshots anew."""
    stale = False
    for path, wanted in files():
        if path.exists() and path.read_text() == wanted:
            continue
        stale = True
        click.echo(f"{path.relative_to(ROOT)} {'is stale: make manifests' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted)
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except StepFailed as error:
        sys.exit(fail(error))

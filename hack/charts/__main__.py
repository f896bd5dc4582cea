"""`python -m charts`: generate files from the chart. With --check, list the stale files and fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from testbed.places import ROOT
from testbed.steps import StepFailed, fail

from . import overlays, snapshots, values


def files() -> Iterator[tuple[Path, str]]:
    """Yield each generated file and its content: values.yaml first, because the others are rendered with it."""
    yield values.VALUES, values.values_file()
    yield values.README, values.readme()
    yield from overlays.files()
    yield from snapshots.files()


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is stale.")
def main(*, check: bool) -> None:
    """Generate values.yaml, the chart's README, manifests/ and the snapshots."""
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

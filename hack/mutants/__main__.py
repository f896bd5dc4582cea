"""Puts in each seeded bug by itself and prints the first test that detects it; exit code 1 if none does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from support.results import keep, place

from .bugs import OWN, ROOT, Bug, bugs, patched
from .trial import LEVELS, Unusable, copy, detected


@click.command()
@click.option("--only", multiple=True, help="A bug to try, by id or source; may be repeated.")
@click.option("--levels", default="123", show_default=True, help="1: unit tests, 2: simulation, 3: API server.")
@click.option("--all-levels", is_flag=True, help="Try every level for the bugs of other operators.")
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="First check the tests without a bug.")
@click.option("--keep", "kept", is_flag=True, help="Write the results to build/results/mutants.toml.")
def main(*, only: tuple[str, ...], levels: str, all_levels: bool, baseline: bool, kept: bool) -> None:
    """Try seeded bugs."""
    chosen = tuple(level for level in LEVELS if str(level) in levels)
    found: dict[str, dict[str, str]] = {}
    (ROOT / "build").mkdir(exist_ok=True)  # the replicas of local runs do not see what is in /tmp
    with TemporaryDirectory(prefix="mutants-", dir=ROOT / "build") as folder:
        root = copy(Path(folder))
        if baseline and (test := " ".join(detected(root, level, None) for level in chosen).strip()):
            raise click.ClickException(f"{test} fails without any bug")
        for bug in bugs():
            if not only or bug.id in only or bug.source in only:
                found[bug.id] = _try(root, bug, chosen, all_levels=all_levels and bug.source != OWN)
                for level, test in found[bug.id].items():
                    click.echo(f"{bug.source:4} {bug.id:32} {level:10} {test or 'NOT DETECTED'}")
    lives = sorted(name for name, tests in found.items() if not any(tests.values()))
    click.echo(f"{len(found) - len(lives)} of {len(found)} seeded bugs detected")
    if kept:
        keep(place("mutants"), "make mutants", {"bugs": found, "not_detected": lives})
    sys.exit(bool(lives))


def _try(root: Path, bug: Bug, levels: Sequence[int], *, all_levels: bool) -> dict[str, str]:
    """The first test that detects the bug at each level; of the levels up to the first that does, or of all."""
    found: dict[str, str] = {}
    before = {edit.file: (root / edit.file).read_text() for edit in bug.edits}
    try:
        for name, text in patched(bug, root).items():
            (root / name).write_text(text)
        for level in levels:
            if all_levels or not any(found.values()):
                found[LEVELS[level]] = detected(root, level, bug)
    except (ValueError, Unusable) as error:
        raise click.ClickException(f"{bug.id}: {error}") from error
    finally:
        for name, text in before.items():
            (root / name).write_text(text)
    return found


if __name__ == "__main__":
    main()

"""Puts in each seeded bug by itself and prints which suites kill it; ends with 1 if one lives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from .bugs import OWN, Bug, bugs
from .levels import LEVELS, Level
from .record import Outcome, header, line, remember, total
from .trial import Unusable, Verdict, checkout, copy, judge

#: What does it all.
COMMAND = "make mutants"


@click.command()
@click.option("--only", multiple=True, help="These bugs, by id or source; may be repeated.")
@click.option(
    "--levels", default="123", show_default=True, help="Which levels to try: 1 units, 2 simulation, 3 API server."
)
@click.option("--all-levels", is_flag=True, help="Try every level on each bug of a peer, not only until it is killed.")
@click.option("--commit", default="", help="Put them in this commit; into what stands here if none is named.")
@click.option("--jobs", default=1, show_default=True, help="So many bugs at a time.")
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="First show that all passes without.")
@click.option(
    "--keep",
    is_flag=True,
    help="Write the results to build/results/mutants.toml; keep the earlier results of bugs that were not tried.",
)
def main(
    *, only: tuple[str, ...], levels: str, all_levels: bool, commit: str, jobs: int, baseline: bool, keep: bool
) -> None:
    """Try the tests."""
    wanted = tuple(bug for bug in bugs() if not only or bug.id in only or bug.source in only)
    chosen = tuple(level for level in LEVELS if str(level.number) in levels)
    outcomes = []
    with checkout(commit) as original:
        if baseline:
            _passes_without(original, chosen)
        click.echo(header())
        for outcome in _tried(wanted, lambda bug: _try(original, bug, chosen, all_levels=all_levels), jobs):
            click.echo(line(outcome))
            outcomes.append(outcome)
    click.echo(total(outcomes))
    if keep:
        remember(outcomes, [bug.id for bug in bugs()], COMMAND)
    sys.exit(not all(outcome.killer for outcome in outcomes))


def _passes_without(original: Path, levels: Sequence[Level]) -> None:
    with copy(original, None) as root:
        for level in levels:
            verdict = judge(root, level, None)
            click.echo(f"without a bug: {level.name}: {verdict.told.strip().splitlines()[-1] if verdict.told else '-'}")
            if verdict.killer or verdict.endless:
                raise click.ClickException(f"{verdict.killer or level.name} fails without any bug:\n{verdict.told}")


def _tried(wanted: Sequence[Bug], attempt: Callable[[Bug], Outcome], jobs: int) -> Iterator[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(attempt, wanted)


def _try(original: Path, bug: Bug, levels: Sequence[Level], *, all_levels: bool) -> Outcome:
    verdicts: dict[str, Verdict] = {}
    try:
        with copy(original, bug) as root:
            for level in levels:
                verdicts[level.name] = judge(root, level, bug)
                if verdicts[level.name].killer and not (all_levels and bug.source != OWN):
                    break
    except Unusable as error:
        return Outcome(bug, {}, str(error))
    return Outcome(bug, verdicts)


if __name__ == "__main__":
    main()

"""The results of a campaign: lines for the terminal, and a file of results."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from reliability.results import keep, place, quantile

from .points import ANSWER, CRASH, FAMILIES, WATCH
from .trial import Outcome
from .workloads import WORKLOADS

FILE = place("faults")


def fault(outcome: Outcome) -> str:
    """Which fault it was."""
    return outcome.point.split("/")[1]


def family(outcome: Outcome) -> str:
    """Which kind of fault."""
    return FAMILIES[fault(outcome)]


def by_workload(outcomes: Collection[Outcome]) -> Iterator[dict[str, object]]:
    """A record for each workload."""
    for name in WORKLOADS:
        mine = [one for one in outcomes if one.point.split("/")[0] == name]
        if not mine:
            continue
        yield {"workload": name, "trials": len(mine)} | points(mine) | violations(mine)


def by_fault(outcomes: Collection[Outcome]) -> Iterator[dict[str, object]]:
    """A record for each fault; times are seconds from the fault to the operator's next write."""
    for name in FAMILIES:
        mine = [one for one in outcomes if fault(one) == name and one.struck]
        if not mine:
            continue
        times = sorted(one.recovery for one in mine if one.recovery is not None)
        told = {"fault": name, "trials": len(mine), "points": sum(one.struck for one in mine)} | violations(mine)
        yield told | {"p50_s": quantile(times, 0.5), "p99_s": quantile(times, 0.99), "max_s": quantile(times, 1)}


def points(outcomes: Collection[Outcome]) -> dict[str, object]:
    """How many points of each family were struck at."""
    kinds = (CRASH, ANSWER, WATCH)
    return {f"{kind}_points": sum(one.struck for one in outcomes if family(one) == kind) for kind in kinds}


def violations(outcomes: Collection[Outcome]) -> dict[str, object]:
    """In how many trials a promise was broken."""
    return {"violations": sum(1 for one in outcomes if one.violations)}


def lines(outcomes: Collection[Outcome]) -> Iterator[str]:
    """Both tables, and the sums."""
    for records in (by_workload(outcomes), by_fault(outcomes)):
        for record in records:
            yield ", ".join(
                f"{value} {key.replace('_', ' ')}" if key not in ("workload", "fault") else f"{value:22}"
                for key, value in record.items()
            )
    struck = sum(one.struck for one in outcomes)
    yield f"{struck} points in {len(outcomes)} trials, {violations(outcomes)['violations']} with violations"


def write(outcomes: Collection[Outcome], file: Path = FILE) -> None:
    """Write the figures down."""
    figures = {
        "workloads": len({one.point.split("/")[0] for one in outcomes}),
        "trials": len(outcomes),
        "points": sum(one.struck for one in outcomes),
        **points(outcomes),
        **violations(outcomes),
        "by_workload": list(by_workload(outcomes)),
        "by_fault": list(by_fault(outcomes)),
    }
    keep(file, "make chaos", figures)

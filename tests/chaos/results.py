"""The outcomes of a campaign, one a line in a file; and their tables, for the terminal and the result file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path

from support.replace import replace
from support.results import keep, place, quantile

from .points import ANSWER, CRASH, FAMILIES, WATCH
from .trial import Outcome
from .workloads import WORKLOADS


class Outcomes(dict[str, Outcome]):
    """The outcomes so far by their points, read from a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else ()
        super().__init__((one.point, one) for one in (Outcome(**json.loads(line)) for line in lines))

    def add(self, outcome: Outcome) -> None:
        """Add an outcome, without the details that only its trial needs."""
        self[outcome.point] = short = replace(outcome, state={}, writes=(), events={})
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(json.dumps(asdict(short)) + "\n")


def by_workload(outcomes: Collection[Outcome]) -> Iterator[dict[str, object]]:
    """A record for each workload."""
    for name in WORKLOADS:
        if mine := [one for one in outcomes if one.point.split("/")[0] == name]:
            yield {"workload": name} | counts(mine)


def by_fault(outcomes: Collection[Outcome]) -> Iterator[dict[str, object]]:
    """A record for each fault; times are seconds from the fault to the operator's next write."""
    for name in FAMILIES:
        if mine := [one for one in outcomes if one.fault == name and one.struck]:
            times = sorted(one.recovery for one in mine if one.recovery is not None)
            quantiles = {"p50_s": quantile(times, 0.5), "p99_s": quantile(times, 0.99), "max_s": quantile(times, 1)}
            yield {"fault": name} | counts(mine) | quantiles


def counts(outcomes: Collection[Outcome]) -> dict[str, object]:
    """The trials, the points of each family at which a fault was injected, and the trials with violations."""
    points = {
        f"{family}_points": sum(one.struck for one in outcomes if FAMILIES[one.fault] == family)
        for family in (CRASH, ANSWER, WATCH)
    }
    total = {"trials": len(outcomes), "points": sum(points.values())}
    return total | points | {"violations": sum(1 for one in outcomes if one.violations)}


def lines(outcomes: Collection[Outcome]) -> Iterator[str]:
    """Both tables and the sums."""
    for record in (*by_workload(outcomes), *by_fault(outcomes), {"all": ""} | counts(outcomes)):
        yield ", ".join(f"{key} {value}" for key, value in record.items() if value != "")


def write(outcomes: Collection[Outcome]) -> None:
    """Write the result file."""
    tables = {"by_workload": list(by_workload(outcomes)), "by_fault": list(by_fault(outcomes))}
    keep(place("faults"), "make chaos", {"workloads": len(tables["by_workload"])} | counts(outcomes) | tables)

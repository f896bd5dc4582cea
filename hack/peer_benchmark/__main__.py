"""Runs the comparison: every contestant on a control plane of its own, in turn, several rounds; keeps the medians.

The results go to build/results, and with --write into docs/how-to/sizing.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.results import keep, place
from support.user_client import UserClient
from testbed.control_plane import ControlPlane
from testbed.places import ROOT

from . import floor, operator_program, report
from .contestants import CONTESTANTS, TRAINSHED, Contestant, install
from .scenarios import BATCH, BIG, EACH, KINDS, Figures, Measurement, roles

SHIPPED = "training-operator"
#: All figures by contestant and round.
Rounds = dict[str, list[Figures]]
SCENARIOS: dict[str, Callable[[Measurement], Coroutine[Any, Any, None]]] = {
    "startup": lambda measurement: measurement.startup(),
    **{f"batch-{kind}": lambda measurement, kind=kind: measurement.batch(kind) for kind in KINDS},
    **{
        f"big-{kind}-{pods}": lambda measurement, kind=kind, pods=pods: measurement.big(kind, pods)
        for kind in KINDS
        for pods in BIG
    },
    "writes": lambda measurement: measurement.writes(),
    "replacement": lambda measurement: measurement.replacement(),
    "group-restart": lambda measurement: measurement.group_restart(),
    "restart": lambda measurement: measurement.restart(),
}
#: Scenarios that the shipped peer completes in a reasonable time within its limits.
OF_SHIPPED = ("startup", "batch-PyTorchJob", "writes", "replacement")
#: How often the short scenarios run in each round, because their times vary most; the medians count.
REPEATS = {name: 3 for name in SCENARIOS if name.startswith("batch-") or name.endswith("-100")}
#: A scenario that the peer never completes: it replaces only the replica that failed.
NOT_OF_PEER = ("group-restart",)


def main() -> int:
    """Run the rounds, print and keep the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[*CONTESTANTS, *report.FLOORS])
    parser.add_argument("--scenario", nargs="*", default=[*SCENARIOS])
    parser.add_argument("--write", action="store_true", help="write the results into docs/how-to/sizing.md")
    options = parser.parse_args()
    operator_program.install()
    rounds: Rounds = {name: [] for name in options.only}
    for number in range(options.rounds):
        for name in options.only if number % 2 == 0 else reversed(options.only):
            if name == SHIPPED and number:
                continue  # its own limits make it as slow in every round
            began = time.monotonic()
            if name in report.FLOORS:
                rounds[name].append(_floor(options.scenario, full=name == report.FULL_FLOOR))
            else:
                rounds[name].append(_one(CONTESTANTS[name], options.scenario))
            sys.stderr.write(f"round {number + 1}: {name}: {time.monotonic() - began:.0f} s\n")
    medians = {name: _medians(found) for name, found in rounds.items() if found}
    sys.stdout.write(report.table(medians))
    processors = len(os.sched_getaffinity(0))
    keep(place("peer"), "make bench-peer", {"rounds": options.rounds, "processors": processors, "figures": medians})
    if options.write:
        today = datetime.now(UTC).date()
        python = operator_program.python_version()
        settings = f"Medians of {options.rounds} rounds, {today}, {processors} processors, Python {python}."
        report.write(ROOT, medians, settings)
    return 0


def _one(contestant: Contestant, wanted: list[str]) -> Figures:
    """Run the scenarios with one contestant; return the medians."""
    found: list[Figures] = []
    with _plane() as plane:
        install(contestant, plane)
        with contestant.start(plane, plane.folder) as running:
            measurement = Measurement(plane, running)
            for name, scenario in SCENARIOS.items():
                skipped = contestant.peer and name in NOT_OF_PEER
                limited = contestant.name == SHIPPED and name not in OF_SHIPPED
                repeats = 1 if contestant.name == SHIPPED else REPEATS.get(name, 1)
                for _ in range(repeats if name in wanted and not skipped and not limited else 0):
                    measurement.figures = {}
                    asyncio.run(scenario(measurement))
                    found.append(measurement.figures)
    if contestant is TRAINSHED and "startup" in wanted:
        found.append({"trainshed --version, s": _version()})
    return _medians(found)


def _floor(wanted: list[str], *, full: bool) -> Figures:
    """Create the pods and Services of the same jobs with a client; `full` adds watches, jobs, status and kubelet."""
    found: list[Figures] = []
    with _plane() as plane:
        install(TRAINSHED, plane)
        user = UserClient(plane.kubeconfig, "floor")
        for scenario, kind, jobs, pods in _floor_cases():
            load, what = floor.Load(kind, jobs, roles(kind, pods)), f"{jobs} x {pods} {kind}"
            for number in range(REPEATS.get(scenario, 1) if scenario in wanted else 0):
                namespace, figures = f"{scenario.lower()}-{number}", Figures()
                if full:
                    made, active, used = asyncio.run(floor.full(plane.kubeconfig, namespace, load, run=jobs == 1))
                    figures[f"{what}: CPU, ms a pod"] = used
                else:
                    user.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
                    made = active = floor.bare(plane.kubeconfig, namespace, load)
                figures[f"{what}: all pods, s"] = made
                if jobs == 1:
                    figures[f"{what}: status shows all active, s"] = active
                found.append(figures)
    return _medians(found)


def _floor_cases() -> Iterator[tuple[str, str, int, int]]:
    for kind in KINDS:
        yield f"batch-{kind}", kind, BATCH, EACH
        for pods in BIG:
            yield f"big-{kind}-{pods}", kind, 1, pods


@contextmanager
def _plane() -> Iterator[ControlPlane]:
    """A control plane with an audit log and nothing in it."""
    with tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder, ControlPlane(Path(folder)) as plane:
        yield plane


def _version() -> float:
    """Seconds that `trainshed --version` takes, the fastest of five."""
    times = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run([str(operator_program.PROGRAM), "-m", "trainshed", "--version"], check=True, capture_output=True)
        times.append(time.monotonic() - began)
    return min(times)


def _medians(found: list[Figures]) -> Figures:
    return {
        what: round(statistics.median(figures[what] for figures in found if what in figures), 3)
        for what in dict.fromkeys(key for figures in found for key in figures)
    }


if __name__ == "__main__":
    sys.exit(main())

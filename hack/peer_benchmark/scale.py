"""Measures the operator alone at scale: one job of 10,000 pods, and 2,000 jobs of 4.

The results go to build/results. They show whether processor time is linear in the number of pods, what a pod takes of
the memory, and how long the event loop is held.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
import urllib.request
from functools import partial
from pathlib import Path

import orjson

from support.jobs import job
from support.process_usage import cpu, rss
from support.results import keep, place
from testbed.control_plane import ControlPlane

from . import operator_program
from .cluster import Cluster
from .contestants import TRAINSHED, Running, install
from .scenarios import Figures, roles

KIND = "PyTorchJob"
LARGE, LARGEST = 1_000, 10_000
MANY, EACH = 2_000, 4
#: Seconds that the operator has to start, with kopf, and to finish what it still does.
SETTLE = 8.0
#: Seconds in which a scenario has to finish.
WITHIN = 1_800


async def one_job(pods: int, plane: ControlPlane, running: Running) -> Figures:
    """Measure one job whose pods run at once: until its status counts all as active."""
    async with Cluster(plane.kubeconfig, f"one-{pods}") as cluster:
        cluster.runs_pods = True
        await cluster.follow(KIND)
        before, began = _usage(plane, running), time.monotonic()
        await cluster.submit([job(KIND, "big", **roles(KIND, pods))])
        made = await cluster.wait(lambda: len(cluster.pods) == pods, WITHIN) - began
        active = await cluster.wait(lambda: cluster.active("big") == pods, WITHIN) - began
        lag = _lag(running)
        await asyncio.sleep(SETTLE)
        size = len(orjson.dumps(cluster.jobs["big"]["status"]))
        return {
            f"1 x {pods}: all pods, s": made,
            f"1 x {pods}: status shows all active, s": active,
            f"1 x {pods}: status, bytes": size,
            f"1 x {pods}: event loop held at most, s": lag,
            **_difference(f"1 x {pods}", pods, before, _usage(plane, running)),
        }


async def many_jobs(plane: ControlPlane, running: Running) -> Figures:
    """Measure many small jobs: until all run; then the memory, and the processor time of ten quiet seconds."""
    what, pods = f"{MANY} x {EACH}", MANY * EACH
    async with Cluster(plane.kubeconfig, "many") as cluster:
        cluster.runs_pods = True
        await cluster.follow(KIND)
        before, began = _usage(plane, running), time.monotonic()
        await cluster.submit(job(KIND, f"job-{number}", **roles(KIND, EACH)) for number in range(MANY))
        made = await cluster.wait(lambda: len(cluster.pods) == pods, WITHIN) - began
        runs = await cluster.wait(lambda: len(cluster.states("Running")) == MANY, WITHIN) - began
        lag = _lag(running)
        await asyncio.sleep(SETTLE)
        after = _usage(plane, running)
        await asyncio.sleep(10)
        return {
            f"{what}: all pods, s": made,
            f"{what}: all run, s": runs,
            f"{what}: event loop held at most, s": lag,
            **_difference(what, pods, before, after),
            f"{what}: CPU at rest, ms a second": (cpu(running.pid) - after[0]) * 100,
        }


def main() -> int:
    """Measure each with a control plane and an operator of its own; print and keep the figures."""
    operator_program.install()
    found: Figures = {}
    for measure in (partial(one_job, LARGE), partial(one_job, LARGEST), many_jobs):
        with tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder, ControlPlane(Path(folder)) as plane:
            install(TRAINSHED, plane)
            with TRAINSHED.start(plane, plane.folder) as running:
                time.sleep(SETTLE)
                figures = asyncio.run(measure(plane, running))
        found |= figures
        sys.stdout.writelines(f"{what}: {value:.4g}\n" for what, value in figures.items())
        sys.stdout.flush()
    ratio = found[f"1 x {LARGEST}: CPU, s"] / found[f"1 x {LARGE}: CPU, s"]
    found[f"CPU of {LARGEST} pods : of {LARGE}"] = ratio
    processors = len(os.sched_getaffinity(0))
    keep(place("scale"), "make bench-scale", {"processors": processors, "figures": found})
    sys.stdout.write(f"CPU of {LARGEST} pods : of {LARGE}: {ratio:.4g}\n")
    return 0


def _usage(plane: ControlPlane, running: Running) -> tuple[float, float, float]:
    """Return the processor time of the operator and of the API server in seconds, and the operator's memory in MiB."""
    return cpu(running.pid), cpu(plane.processes[1].pid), rss(running.pid)


def _difference(what: str, pods: int, before: tuple[float, ...], after: tuple[float, ...]) -> Figures:
    own, server, memory = (later - earlier for earlier, later in zip(before, after, strict=True))
    return {
        f"{what}: CPU, s": own,
        f"{what}: CPU, ms a pod": own / pods * 1000,
        f"{what}: CPU of the API server, ms a pod": server / pods * 1000,
        f"{what}: resident memory, MiB": after[2],
        f"{what}: memory, KiB a pod": memory / pods * 1024,
    }


def _lag(running: Running) -> float:
    """Return the largest lag of the event loop that the operator has measured in the last minute."""
    with urllib.request.urlopen(f"http://{running.metrics}/metrics", timeout=30) as answer:
        found = re.search(r"^trainshed_event_loop_lag_seconds (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


if __name__ == "__main__":
    sys.exit(main())

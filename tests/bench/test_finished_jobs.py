"""Ten thousand finished jobs neither slow down a new job nor cause any load."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Operator
from support.fake_kubelet import FakeKubelet
from support.jobs import tfjob
from support.measured import USER, Measured
from support.planes import ready_control_plane
from support.results import keep
from support.user_client import AsyncClient, UserClient, eventually, where
from testbed.control_plane import ControlPlane
from trainshed.controller.manager import GC_FREEZE_DELAY

FINISHED, AT_ONCE, NEW = 10_000, 24, 12
#: The file for the figures, or empty.
KEPT = os.environ.get("TRAINSHED_FIGURES", "")
#: New jobs take at most this many times as long as on an empty cluster, on a machine that is not idle.
SLOWER = 1.5
#: The maximum CPU of the operator at rest, and the maximum MiB for each finished job: the operator keeps 6 KiB of each,
#: the rest is heap that kopf's list of all jobs has left.
IDLE, EACH = 0.02, 0.02


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An empty control plane for this module."""
    with ready_control_plane(tmp_path_factory.mktemp("crowded")) as plane:
        yield plane


@pytest.mark.fault("I13")
@pytest.mark.timeout(0)  # ten thousand jobs take minutes
def test_ten_thousand_finished_jobs_do_not_slow_down_a_new_one(crowded: ControlPlane, tmp_path: Path) -> None:
    user = UserClient(crowded.kubeconfig, "new")
    user.make_namespace()
    kubeconfig = crowded.kubeconfig_for(USER, ("system:masters",))
    few = begun(kubeconfig, tmp_path / "few", crowded)
    alone, light = [latency(user, f"few-{number}") for number in range(NEW)], few.memory()
    few.operator.stop()

    began = time.monotonic()
    asyncio.run(fill(crowded))
    filled, began = time.monotonic() - began, time.monotonic()
    many = begun(kubeconfig, tmp_path / "many", crowded)
    ready = time.monotonic() - began
    eventually(lambda: "trainshed_workqueue_depth 0.0" in many.operator.served(), 120)
    time.sleep(GC_FREEZE_DELAY + 5)
    standstill = float(re.search(r"^trainshed_event_loop_lag_seconds (\S+)$", many.operator.served(), re.MULTILINE)[1])
    before, cpu = many.requests(), many.cpu()
    time.sleep(60)
    idle, asked = (many.cpu() - cpu) / 60, many.requests() - before
    crowd, heavy = [latency(user, f"many-{number}") for number in range(NEW)], many.memory()
    many.operator.stop()

    ratio = statistics.median(crowd) / statistics.median(alone)
    figures = {
        "finished_jobs": FINISHED,
        "written_in_s": round(filled, 1),
        "ready_after_s": round(ready, 1),
        "new_job_p50_s": round(statistics.median(crowd), 3),
        "new_job_without_the_others_p50_s": round(statistics.median(alone), 3),
        "times_as_long": round(ratio, 2),
        "loop_stood_still_at_most_s": round(standstill, 2),
        "processors_at_rest": round(idle, 4),
        "mib": heavy,
        "mib_without_the_others": light,
        "kib_a_job": round((heavy - light) / FINISHED * 1024, 1),
        "requests_in_a_minute_of_rest": sum(asked.values()),
    }
    print("", *(f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()), sep="\n")
    if KEPT:
        keep(Path(KEPT), "make bench-finished-jobs", figures)
    reads = {what: count for what, count in asked.items() if "leases" not in what and not what.startswith("watch ")}
    assert reads == {}, "finished jobs are no work"
    writes = [what for what, count in many.requests("done").items() if what.split()[0] in ("create", "patch", "delete")]
    assert writes == [], "nothing is written about jobs that are over"
    assert ratio <= SLOWER
    assert idle <= IDLE
    assert (heavy - light) / FINISHED <= EACH


def begun(kubeconfig: Path, folder: Path, plane: ControlPlane) -> Measured:
    """An operator that has listed all objects."""
    folder.mkdir()
    operator = Operator(kubeconfig, folder).start(wait=False)
    operator.wait_until_ready(180)
    return Measured(operator, plane.audit_log)


def latency(user: UserClient, name: str) -> float:
    """Return the seconds from a job's creation to the condition Running."""
    began = time.monotonic()
    user.create(tfjob(name, Chief=1, Worker=3))
    with FakeKubelet(user):
        eventually(lambda: user.state("TFJob", name) == "Running", 60, every=0.01)
        took = time.monotonic() - began
    user.delete_job("TFJob", name)
    for pod in user.pods(name):
        user.delete("pods", pod["metadata"]["name"], grace=0)
    return took


async def fill(plane: ControlPlane) -> None:
    """Create ten thousand jobs that have succeeded, with a status written by another client."""
    condition = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": "It has succeeded."}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition |= {"lastUpdateTime": now, "lastTransitionTime": now}
    status = {"conditions": [condition], "startTime": now, "completionTime": now}
    status["replicaStatuses"] = {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 3}}
    async with AsyncClient(plane.kubeconfig) as api:
        await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "done"}})
        numbers = iter(range(FINISHED))

        async def write() -> None:
            for number in numbers:
                name = f"done-{number}"
                await api.call("POST", where("tfjobs", "done"), tfjob(name, Chief=1, Worker=3))
                await api.merge(where("tfjobs", "done", name, "status"), {"status": status})

        await asyncio.gather(*(write() for _ in range(AT_ONCE)))

"""Records what this version decides in the main stories of jobs: `python -m support.recordings VERSION` keeps it.

The folder of a released version stays as it is: a later version is compared with it. That of a version which is not
released yet may be removed and made again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.builders import T0, a_job, a_pod, at, elastic, pods_of, running, seen
from support.harness import Harness, a_spec
from support.replace import replace
from trainshed import plan as planner
from trainshed.api.actions import Plan, Snapshot
from trainshed.controller.observer import Observer, Observers
from trainshed.decisions.recording import Encoder, worth_keeping

FOLDER = Path(__file__).parents[1] / "unit" / "decisions" / "recordings"


class Lines(Observer):
    """The lines of the decisions that it hears of."""

    def __init__(self, version: str) -> None:
        self._encoder, self.lines = Encoder(version), list[bytes]()

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        if worth_keeping(snapshot, plan, self._encoder.rule):
            self.lines.append(self._encoder.line(snapshot, plan))


def a_job_of(lines: Lines, *, restart: str = "ExitCode", **policy: object) -> Harness:
    """Return a job of two workers, of which the decisions are heard."""
    found = Harness(a_spec(Worker=2, restart=restart, policy=policy))
    found.reconciler._metrics = Observers(found.metrics, lines)
    return found


async def end(job: Harness, code: int, *names: str) -> None:
    """Let pods end, and reconcile until all follows."""
    for name in names:
        job.world.set_pod(name, "Failed" if code else "Succeeded", code=code)
    job.hear()
    await settle(job)


async def settle(job: Harness) -> None:
    """Reconcile for some minutes, with pods that run and go when they are deleted."""
    for _ in range(12):
        await job.reconcile(seconds=20)
        for name, pod in job.world.pods.items():
            if pod.deleting:
                job.world.confirm_deletion(name)
            elif pod.phase == "Pending":
                job.world.set_pod(name, "Running")
        job.hear()


async def success(lines: Lines) -> None:
    job = a_job_of(lines)
    await job.run_all()
    await end(job, 0, "mnist-worker-0")
    await end(job, 0, "mnist-worker-1")


async def restart(lines: Lines) -> None:
    job = a_job_of(lines)
    await job.run_all()
    await end(job, 137, "mnist-worker-1")
    await end(job, 1, "mnist-worker-0")


async def eviction(lines: Lines) -> None:
    job = a_job_of(lines, restart="Never")
    await job.run_all()
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drain"}
    job.world.replace("pods", "mnist-worker-1", lambda pod: pod["status"].update(conditions=[disruption]), "status")
    job.hear()
    await end(job, 143, "mnist-worker-1")


async def backoff_limit(lines: Lines) -> None:
    job = a_job_of(lines, backoffLimit=1)
    await job.run_all()
    for _ in range(2):
        await end(job, 137, "mnist-worker-1")


async def clean_up(lines: Lines) -> None:
    job = a_job_of(lines, cleanPodPolicy="All", ttlSecondsAfterFinished=100)
    await job.run_all()
    await end(job, 0, "mnist-worker-0")


async def scaling(lines: Lines) -> None:
    """An elastic job: it begins, a worker fails, and it has one worker fewer."""
    job = a_job("PyTorchJob", worker=3, restart="ExitCode", options=elastic(), created=T0)
    runs = replace(seen(job), pods=tuple(pods_of(job)), status=running(job), now=at(10))
    died = a_pod("worker-1", "Failed", code=137, ended=60, container="pytorch")
    fewer = replace(job, generation=2, groups=(replace(job.groups[0], count=2),))
    failed = replace(runs, pods=tuple(pods_of(job, died)), now=at(90))
    for snapshot in seen(job), runs, failed, replace(runs, job=fewer, now=at(120)):
        lines.on_decision(snapshot, planner.plan(snapshot))


STORIES: tuple[Callable[[Lines], Awaitable[None]], ...] = (success, restart, eviction, backoff_limit, clean_up, scaling)


def recorded(story: Callable[[Lines], Awaitable[None]], version: str) -> bytes:
    """Return what this version decides in a story."""
    lines = Lines(version)
    asyncio.run(story(lines))
    return b"".join(lines.lines)


if __name__ == "__main__":
    (FOLDER / sys.argv[1]).mkdir()
    for one in STORIES:
        (FOLDER / sys.argv[1] / f"{one.__name__}.jsonl").write_bytes(recorded(one, sys.argv[1]))

"""The least that any operator needs: a parallel client that creates the pods and Services of jobs and nothing else.

The full floor adds what the measurement itself does beside every contestant: it creates the jobs, follows pods and
jobs, and lets the pods of large jobs run.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from support.jobs import job
from support.user_client import AsyncClient, where
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import served
from trainshed.plan import builders

from .cluster import Cluster, runs

WIDTH = 32
FRAMEWORKS = {framework.kind: framework for framework in served("v1", ())}


@dataclass(frozen=True)
class Load:
    """What to create: the pods and Services of a number of jobs, and the jobs themselves if `with_job` is set."""

    kind: str
    jobs: int
    roles: dict[str, int]
    with_job: bool = False

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.jobs * sum(self.roles.values())


def objects(load: Load, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the plural and the body of the Services and pods of a job, after the job itself if the load has it."""
    framework, defaults = FRAMEWORKS[load.kind], JobDefaults()
    document = job(load.kind, name, **load.roles)
    if load.with_job:
        yield framework.plural, document
    document = document | {"metadata": document["metadata"] | {"namespace": "default", "uid": f"uid-{name}"}}
    parsed = parse.job(document, framework, defaults)
    make = builders.pod_maker(framework, parsed, defaults)
    make_service = builders.service_maker(framework, parsed)
    for replica in parsed.all_replicas:
        yield "services", dict(make_service(replica).body)
        yield "pods", dict(make(replica, 0).body)


async def bare(kubeconfig: Path, namespace: str, load: Load) -> float:
    """Return the seconds that a client needs for the pods and Services alone."""
    began, ended = await _in_a_process(kubeconfig, namespace, load)
    return ended - began


async def full(kubeconfig: Path, namespace: str, load: Load, *, run: bool) -> tuple[float, float]:
    """Return the seconds until a watch shows all pods, and until it shows that all run; equal if they do not `run`."""
    async with Cluster(kubeconfig, namespace) as cluster:
        cluster.runs_pods = run
        await cluster.follow(load.kind)
        began, _ = await _in_a_process(kubeconfig, namespace, load)
        await cluster.wait(lambda: len(cluster.pods) == load.pods)
        made = max(cluster.seen[uid] for uid in cluster.pods)
        running = await cluster.wait(lambda: all(map(runs, cluster.pods.values()))) if run else made
        return made - began, running - began


async def _in_a_process(kubeconfig: Path, namespace: str, load: Load) -> tuple[float, float]:
    """Create everything from another process; return the monotonic times of the beginning and the end."""
    command = [sys.executable, "-m", "peer_benchmark.floor", str(kubeconfig), namespace, json.dumps(asdict(load))]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the floor ended with {process.returncode}")
    began, ended = map(float, output.split())
    return began, ended


async def _create(kubeconfig: Path, namespace: str, load: Load) -> tuple[float, float]:
    """Create everything; return the monotonic times of the beginning and the end."""
    jobs = (objects(load, f"job-{n}") for n in range(load.jobs))
    remaining = iter([each for bodies in jobs for each in bodies])
    async with AsyncClient(kubeconfig) as client:
        await client.call("GET", where("pods", namespace))

        async def work() -> None:
            for plural, body in remaining:
                await client.call("POST", where(plural, namespace), body)

        began = time.monotonic()
        await asyncio.gather(*(work() for _ in range(WIDTH)))
        return began, time.monotonic()


if __name__ == "__main__":
    file, where_to, what = sys.argv[1:]
    times = asyncio.run(_create(Path(file), where_to, Load(**json.loads(what))))
    sys.stdout.write("{} {}\n".format(*times))

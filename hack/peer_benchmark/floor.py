"""The least that any operator needs: a parallel client that creates the pods and Services of jobs and nothing else.

The full floor also follows jobs, pods and Services, creates the objects of a job when the job appears, and stores one
status for it once no pod waits. Meanwhile the measurement does what it does beside every contestant: it creates the
jobs, follows pods and jobs, and lets the pods of large jobs run. So its processor time is that of an operator in Python
that decides nothing.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from support.jobs import job
from support.process_usage import cpu
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import served
from trainshed.plan import builders

from .cluster import Cluster, runs
from .operator_program import PROGRAM

FRAMEWORKS = {framework.kind: framework for framework in served("v1", ())}
#: Seconds in which the program has to end once it is asked to.
END = 20


@dataclass(frozen=True)
class Load:
    """Jobs of one kind with these roles; their pods and Services are to be created."""

    kind: str
    jobs: int
    roles: dict[str, int]

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.jobs * sum(self.roles.values())

    def documents(self) -> list[dict[str, Any]]:
        """Return the jobs."""
        return [job(self.kind, f"job-{number}", **self.roles) for number in range(self.jobs)]


def objects(kind: str, document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the plural and the body of the Services and pods of a job."""
    framework, defaults = FRAMEWORKS[kind], JobDefaults()
    name = document["metadata"]["name"]
    document = document | {"metadata": document["metadata"] | {"namespace": "default", "uid": f"uid-{name}"}}
    parsed = parse.job(document, framework, defaults)
    make = builders.pod_maker(framework, parsed, defaults)
    make_service = builders.service_maker(framework, parsed)
    for replica in parsed.all_replicas:
        yield "services", dict(make_service(replica).body)
        yield "pods", dict(make(replica, 0).body)


def bare(kubeconfig: Path, namespace: str, load: Load) -> float:
    """Return the seconds that a client needs for the pods and Services alone."""
    with _program(kubeconfig, namespace, load, follow=False) as (process, output):
        assert process.stdin is not None
        process.stdin.write("begin\n")
        process.stdin.flush()
        began, ended = map(float, output.readline().split())
    return ended - began


async def full(kubeconfig: Path, namespace: str, load: Load, *, run: bool) -> tuple[float, float, float]:
    """Return the seconds until a watch shows all pods, and until it shows that all run; equal if they do not `run`.

    Last, the processor time of the client until then, in milliseconds for each pod.
    """
    async with Cluster(kubeconfig, namespace) as cluster:
        cluster.runs_pods = run
        await cluster.follow(load.kind)
        with _program(kubeconfig, namespace, load, follow=True) as (process, _):
            used, began = cpu(process.pid), time.monotonic()
            await cluster.submit(load.documents())
            made = await cluster.wait(lambda: len(cluster.pods) == load.pods)
            running = await cluster.wait(lambda: all(map(runs, cluster.pods.values()))) if run else made
            used = cpu(process.pid) - used
        return made - began, running - began, used / load.pods * 1000


@contextmanager
def _program(
    kubeconfig: Path, namespace: str, load: Load, *, follow: bool
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Start the program with its orders, and end it."""
    framework = FRAMEWORKS[load.kind]
    orders = {
        "kubeconfig": str(kubeconfig),
        "namespace": namespace,
        "jobs": {document["metadata"]["name"]: list(objects(load.kind, document)) for document in load.documents()},
        "path": (framework.prefix, framework.plural) if follow else None,
    }
    command = [str(PROGRAM), str(Path(__file__).with_name("floor_program.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(orders) + "\n")
            process.stdin.flush()
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the floor does not start")
            yield process, process.stdout
            if process.poll():
                raise RuntimeError(f"the floor ended with {process.returncode}")
        finally:
            process.terminate()
            process.wait(END)

"""The page over a cluster in memory, in a process of its own that a test drives by lines: for what is measured."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from trainshed.client.job_reader import JobKind
from trainshed.ui.access import Access
from trainshed.ui.application import Site, Sources, served
from trainshed.ui.model import JobsPlace
from trainshed.views.rank_stacks import NotRead, ReplicaStacks, Result, parse

from . import decided
from .page_cluster import KIND, PageCluster
from .pages import jobs_path

NAMESPACES, STATES = ("ml", "vision", "speech"), (*["Running"] * 12, "Failed", "Blocked", "Restarting", "Succeeded")
#: The job whose replicas write logs, and the names of its pods.
CHATTY, CHATTY_PODS = "job-0", ("job-0-master-0", *(f"job-0-worker-{number}" for number in range(7)))
ROOT = Path(__file__).parents[2]


class PageProcess:
    """The process: `link` opens the page once, `pid` is its number."""

    def __init__(self, jobs: int) -> None:
        words = [sys.executable, "-m", "support.page_process", str(jobs)]
        path = {
            "PYTHONPATH": ":".join(map(str, (ROOT / "tests", ROOT / "hack", ROOT / "operator"))),
            "PATH": "/usr/bin",
        }
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path, cwd=ROOT
        )
        self.pid, self.link = self._process.pid, self._answer()["link"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=30)

    def ask(self, **wanted: object) -> dict:
        """Let it do something, and return what it says about that."""
        self._process.stdin.write(f"{json.dumps(wanted)}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict:
        return json.loads(self._process.stdout.readline())


async def serve(jobs: int) -> None:
    """Serve the page until the process is ended."""
    cluster, access = PageCluster(), Access()
    for name in NAMESPACES[1:]:
        cluster.server.make_namespace(name)
    for number in range(jobs):
        cluster.add(NAMESPACES[number % 3], f"job-{number}", 8, STATES[number % len(STATES)])
    site = Site(cluster.feed, access, JobsPlace("memory"), Sources(stacks=read_stacks))
    async with served(site, 0), asyncio.TaskGroup() as tasks:
        tasks.create_task(site.feed.run())
        await site.feed.synced.wait()
        say(link=access.new_link())
        while line := await asyncio.to_thread(sys.stdin.readline):
            wanted = json.loads(line)
            say(**await DOES[wanted.pop("do")](cluster, **wanted))


def say(**found: object) -> None:
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()


async def state(cluster: PageCluster, job: int, state: str) -> dict:
    """Change the state of a job, and say when."""
    cluster.report(NAMESPACES[job % 3], f"job-{job}", state=state)
    return {"at": time.time()}


async def reports(cluster: PageCluster, jobs: int, number: int, seconds: float) -> dict:
    """Let trainings report so often, evenly over some seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for one in range(number):
        job = one % jobs
        cluster.report(NAMESPACES[job % 3], f"job-{job}", step=one)
        await asyncio.sleep(began + (one + 1) * seconds / number - loop.time())
    return {"took": loop.time() - began}


async def write(cluster: PageCluster, lines: list[str], times: int = 1) -> dict:
    """Write lines to the logs of all replicas of the chatty job."""
    for pod in CHATTY_PODS:
        for start in range(times):
            cluster.transport.write(pod, *(line.replace("{n}", str(start)) for line in lines))
    return {"at": time.time()}


async def write_fast(cluster: PageCluster, seconds: float, each: int) -> dict:
    """Write so many lines a second to the log of one replica."""
    for number in range(round(seconds * 20)):
        cluster.transport.write(CHATTY_PODS[0], *(f"step {number} line {line}" for line in range(each // 20)))
        await asyncio.sleep(0.05)
    return {}


#: What containers that read stacks print, by the names of replicas.
OUTPUTS: dict[str, list[str]] = {}


async def stacks(cluster: PageCluster, **outputs: list[str]) -> dict:
    """Let the containers that read stacks print these lines."""
    del cluster
    OUTPUTS.clear()
    OUTPUTS.update(outputs)
    return {}


async def read_stacks(job: dict, kind: JobKind, most: int) -> ReplicaStacks:
    """Return what was printed for each replica."""
    del job, kind, most
    found = dict[str, Result]()
    for replica, lines in OUTPUTS.items():
        try:
            found[replica] = parse([line.encode() for line in lines])
        except NotRead as error:
            found[replica] = error
    return ReplicaStacks(found)


async def decide(cluster: PageCluster, job: int) -> dict:
    """Record decisions about a job."""
    namespace = NAMESPACES[job % 3]
    found = cluster.server.object(jobs_path(KIND, f"job-{job}", namespace))
    parts = decided.parts(decided.RUNS, decided.FAILED)
    cluster.keep_decisions(found["metadata"]["uid"], parts, namespace=namespace)
    return {}


DOES = {
    "decide": decide,
    "state": state,
    "reports": reports,
    "stacks": stacks,
    "write": write,
    "write_fast": write_fast,
}


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))

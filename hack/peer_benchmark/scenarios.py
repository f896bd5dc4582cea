"""The measurements: the steps of a user with one contestant, and their durations."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from support.audit_log import requests
from support.jobs import job
from support.measured import USER
from support.process_usage import cpu, rss
from testbed.control_plane import ControlPlane

from .cluster import Cluster, Document, runs
from .contestants import Running

#: The roles of a job of n pods, by kind.
LEADERS = {"PyTorchJob": "Master", "TFJob": "Chief"}
KINDS = tuple(LEADERS)
BATCH, EACH, BIG, RUNNING, FAILURES, FEW = 100, 4, (100, 1000), 200, 5, 10
#: Seconds for a contestant to finish pending work, such as Events, before its requests are counted.
REST = 3.0
Figures = dict[str, float]


def roles(kind: str, pods: int) -> dict[str, int]:
    """One leader, and workers for the other pods."""
    return {LEADERS[kind]: 1, "Worker": pods - 1}


class Measurement:
    """One contestant on one control plane; `figures` grows with each scenario."""

    def __init__(self, plane: ControlPlane, running: Running) -> None:
        self.figures: Figures = {}
        self._plane = plane
        self._running = running
        self._namespaces = 0

    def cluster(self) -> Cluster:
        """A cluster in a new namespace."""
        self._namespaces += 1
        return Cluster(self._plane.kubeconfig, f"bench-{self._namespaces}")

    async def startup(self) -> None:
        """Measure the first start: until the first pod of a job that exists already."""
        async with self.cluster() as cluster:
            await cluster.follow("PyTorchJob")
            await cluster.submit([job("PyTorchJob", "first", **roles("PyTorchJob", 2))])
            began = self._running.began
            self.figures["start to first pod, s"] = await cluster.wait(lambda: bool(cluster.pods), 60) - began
            await cluster.wait(lambda: bool(cluster.states("Created")), 60)
            await cluster.clear("PyTorchJob")
            await asyncio.sleep(REST)  # what a contestant does once, after its start, is not a cost of the next jobs

    async def batch(self, kind: str) -> None:
        """Measure many small jobs at once: created, run, succeeded."""
        async with self.cluster() as cluster:
            await cluster.follow(kind)
            with self._used(f"{BATCH} x {EACH} {kind}", BATCH * EACH):
                began = time.monotonic()
                await cluster.submit(job(kind, f"job-{n}", **roles(kind, EACH)) for n in range(BATCH))
                made = await cluster.wait(lambda: len(cluster.pods) == BATCH * EACH)
            self.figures[f"{BATCH} x {EACH} {kind}: all pods, s"] = made - began
            await cluster.run_all()
            await cluster.wait(lambda: len(cluster.states("Running")) == BATCH)
            leaders = [pod for pod in cluster.pods.values() if LEADERS[kind].lower() in pod["metadata"]["name"]]
            await asyncio.gather(*(cluster.end_pod(pod, 0) for pod in leaders))
            await cluster.wait(lambda: len(cluster.states("Succeeded")) == BATCH)
            await cluster.clear(kind)

    async def big(self, kind: str, pods: int) -> None:
        """Measure one job of many pods, which run at once: until its status counts all as active."""
        async with self.cluster() as cluster:
            cluster.runs_pods = True
            await cluster.follow(kind)
            with self._used(f"1 x {pods} {kind}", pods):
                began = time.monotonic()
                await cluster.submit([job(kind, "big", **roles(kind, pods))])
                made = await cluster.wait(lambda: len(cluster.pods) == pods)
                active = await cluster.wait(lambda: cluster.active("big") == pods)
            self.figures[f"1 x {pods} {kind}: all pods, s"] = made - began
            self.figures[f"1 x {pods} {kind}: status shows all active, s"] = active - began
            await cluster.clear(kind)

    async def writes(self) -> None:
        """Count the writes of jobs whose pods run at once: until the job runs, and of its whole life."""
        async with self.cluster() as cluster:
            cluster.runs_pods = True
            await cluster.follow("PyTorchJob")
            for number in range(FEW):
                await cluster.submit([job("PyTorchJob", f"job-{number}", **roles("PyTorchJob", EACH))])
                await asyncio.sleep(0.3)
            await cluster.wait(lambda: len(cluster.states("Running")) == FEW)
            await asyncio.sleep(REST)
            self._count_writes("until it runs", cluster.namespace)
            leaders = [pod for pod in cluster.pods.values() if "master" in pod["metadata"]["name"]]
            await asyncio.gather(*(cluster.end_pod(pod, 0) for pod in leaders))
            await cluster.wait(lambda: len(cluster.states("Succeeded")) == FEW)
            await asyncio.sleep(REST)
            self._count_writes("until it has succeeded", cluster.namespace)
            await cluster.clear("PyTorchJob")

    async def replacement(self) -> None:
        """Measure the first failure of one replica of a TFJob with parameter servers: until its new pod exists."""
        times = []
        async with self.cluster() as cluster:
            cluster.runs_pods = True
            await cluster.follow("TFJob")
            for number in range(FAILURES):
                name = f"tf-{number}"
                await cluster.submit([job("TFJob", name, restart="ExitCode", PS=1, Worker=2)])
                victim = await _running_pod(cluster, name, f"{name}-worker-0", 3)
                await asyncio.sleep(1.0)
                began = time.monotonic()
                await cluster.end_pod(victim, 137)
                new = await _replaced(cluster, victim)
                times.append(cluster.seen[new["metadata"]["uid"]] - began)
            await cluster.clear("TFJob")
        self.figures["first failure to replacement (TFJob with PS), s"] = statistics.median(times)

    async def group_restart(self) -> None:
        """Measure the first failure of a synchronous job of four: until four new pods run."""
        times = []
        async with self.cluster() as cluster:
            cluster.runs_pods = True
            await cluster.follow("PyTorchJob")
            for number in range(FAILURES):
                name = f"pt-{number}"
                await cluster.submit([job("PyTorchJob", name, restart="ExitCode", **roles("PyTorchJob", EACH))])
                victim = await _running_pod(cluster, name, f"{name}-worker-1", EACH)
                await asyncio.sleep(1.0)
                old = {pod["metadata"]["uid"] for pod in _of(cluster, name)}
                began = time.monotonic()
                await cluster.end_pod(victim, 137)
                new = lambda: [pod for pod in _of(cluster, name) if pod["metadata"]["uid"] not in old]  # noqa: E731, B023
                run = await cluster.wait(lambda: len(new()) == EACH and all(map(runs, new())), 60)  # noqa: B023
                times.append(run - began)
            await cluster.clear("PyTorchJob")
        self.figures["1 of 4 fails, all 4 run again, s"] = statistics.median(times)

    async def restart(self) -> None:
        """Measure the memory with many running pods, and a restart: until a pod that was lost meanwhile is repaired."""
        async with self.cluster() as cluster:
            cluster.runs_pods = True
            await cluster.follow("TFJob")
            await cluster.submit(job("TFJob", f"job-{n}", restart="ExitCode", PS=1, Worker=3) for n in range(RUNNING))
            await cluster.wait(lambda: sum(map(runs, cluster.pods.values())) == RUNNING * EACH)
            await cluster.wait(lambda: len(cluster.states("Running")) == RUNNING)
            await asyncio.sleep(REST)
            self.figures[f"resident memory with {RUNNING * EACH} running pods, MB"] = rss(self._running.pid)
            self._running.stop()
            lost = next(pod for pod in cluster.pods.values() if "worker-2" in pod["metadata"]["name"])
            await cluster.delete_pod(lost)
            await cluster.wait(lambda: lost["metadata"]["uid"] not in cluster.pods)
            self._running.start()
            new = await _replaced(cluster, lost)
            self.figures["restart to first repair, s"] = cluster.seen[new["metadata"]["uid"]] - self._running.began

    @contextmanager
    def _used(self, what: str, pods: int) -> Iterator[None]:
        """Note the processor time for each pod, of the contestant and of the API server."""
        server = self._plane.processes[1].pid
        before = cpu(self._running.pid), cpu(server)
        yield
        self.figures[f"{what}: CPU, ms a pod"] = (cpu(self._running.pid) - before[0]) / pods * 1000
        self.figures[f"{what}: CPU of the API server, ms a pod"] = (cpu(server) - before[1]) / pods * 1000

    def _count_writes(self, when: str, namespace: str) -> None:
        writes = Counter(request.what for request in requests(self._plane, USER, namespace) if request.writes)
        events = sum(number for what, number in writes.items() if what.endswith("events"))
        self.figures[f"writes for a PyTorchJob of {EACH} {when}"] = sum(writes.values()) / FEW
        self.figures[f"Event writes for it {when}"] = events / FEW


async def _running_pod(cluster: Cluster, name: str, pod: str, pods: int) -> Document:
    """Wait until all pods of a job and the job run; return one of them."""
    await cluster.wait(lambda: sum(map(runs, _of(cluster, name))) == pods, 60)
    await cluster.wait(lambda: name in cluster.states("Running"), 60)
    return next(each for each in _of(cluster, name) if each["metadata"]["name"] == pod)


async def _replaced(cluster: Cluster, old: Document) -> Document:
    """Wait until there is another pod of this name; return it."""

    def found() -> list[Document]:
        return [
            pod
            for pod in cluster.pods.values()
            if pod["metadata"]["name"] == old["metadata"]["name"] and pod["metadata"]["uid"] != old["metadata"]["uid"]
        ]

    await cluster.wait(lambda: bool(found()), 60)
    return found()[0]


def _of(cluster: Cluster, name: str) -> list[Document]:
    return [pod for pod in cluster.pods.values() if pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == name]

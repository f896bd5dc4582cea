"""A user and a kubelet in one process: submits jobs, follows pods and jobs through watches, lets pods run and end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from support import pod_statuses
from support.fake_kubelet import remove, set_status
from support.user_client import AsyncClient, Refused, where

#: Concurrent requests of the kubelet and of the user.
WIDTH = 16
Document = dict[str, Any]


class Cluster:
    """The pods and jobs of one namespace as the watches show them; new pods run if `runs_pods` is set.

    `seen` has the monotonic time at which each pod, by its uid, and each job condition, by name and type, came first.
    """

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.namespace = namespace
        self.runs_pods = False
        self.pods: dict[str, Document] = {}
        self.jobs: dict[str, Document] = {}
        self.seen: dict[str, float] = {}
        self._client = AsyncClient(kubeconfig)
        self._room = asyncio.Semaphore(WIDTH)
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._client.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.__aexit__()

    async def follow(self, kind: str) -> None:
        """Watch the pods and the jobs of a kind from now on."""
        for plural, handle in (("pods", self._pod), (f"{kind.lower()}s", self._job)):
            version = (await self._client.call("GET", where(plural, self.namespace)))["metadata"]["resourceVersion"]
            self._do(self._watch(plural, version, handle))

    async def submit(self, jobs: Iterable[Document]) -> None:
        """Create the jobs, in order, several at a time."""
        await asyncio.gather(*(self._create(job) for job in jobs))

    async def end_pod(self, pod: Document, code: int) -> None:
        """Let the container of a pod end with this exit code."""
        await self._set_status(pod, pod_statuses.ended(pod, code, time.time()))

    async def delete_pod(self, pod: Document) -> None:
        """Delete a pod without a grace period."""
        await remove(self._client, pod)

    async def clear(self, kind: str) -> None:
        """Delete the jobs of a kind and all their objects, as no garbage collector runs."""
        await self._client.call("DELETE", where(f"{kind.lower()}s", self.namespace))
        while self.jobs or self.pods:  # a contestant may create a pod once more before it sees that the job is gone
            await self._client.call("DELETE", where("pods", self.namespace), {"gracePeriodSeconds": 0}, within=120)
            await asyncio.sleep(0.5)
        services = await self._client.call("GET", where("services", self.namespace))
        for service in services["items"]:
            with suppress(Refused):
                await self._client.call("DELETE", where("services", self.namespace, service["metadata"]["name"]))

    async def wait(self, question: Callable[[], bool], within: float = 300) -> float:
        """Return the monotonic time at which the answer became true; raises TimeoutError."""
        async with asyncio.timeout(within):
            while not question():
                self._changed.clear()
                await self._changed.wait()
        return time.monotonic()

    def states(self, condition: str) -> list[str]:
        """The names of the jobs whose condition of this type is True."""
        return [name for name, job in self.jobs.items() if condition in _true(job)]

    def active(self, name: str) -> int:
        """Return the number of active replicas in the status of a job."""
        counts = self.jobs.get(name, {}).get("status", {}).get("replicaStatuses", {}).values()
        return sum(count.get("active", 0) for count in counts)

    async def _create(self, job: Document) -> None:
        async with self._room:
            await self._client.call("POST", where(f"{job['kind'].lower()}s", self.namespace), job)

    def _pod(self, sort: str, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        if sort == "DELETED":
            self.pods.pop(uid, None)
            return
        new = uid not in self.pods
        self.pods[uid] = pod
        self.seen.setdefault(uid, time.monotonic())
        if "deletionTimestamp" in pod["metadata"]:
            self._do(self._remove(pod))
        elif new and self.runs_pods and pod["status"].get("phase") == "Pending":
            self._do(self.run(pod))

    def _job(self, sort: str, job: Document) -> None:
        name = job["metadata"]["name"]
        if sort == "DELETED":
            self.jobs.pop(name, None)
            return
        self.jobs[name] = job
        for condition in _true(job):
            self.seen.setdefault(f"{name} {condition}", time.monotonic())

    async def run(self, pod: Document) -> None:
        """Let a pod run."""
        await self._set_status(pod, pod_statuses.running(pod, time.time()))

    async def run_all(self) -> None:
        """Let all pods run that do not, and those that will be created."""
        self.runs_pods = True
        pending = [pod for pod in self.pods.values() if pod["status"].get("phase") == "Pending"]
        await asyncio.gather(*(self.run(pod) for pod in pending))

    async def _remove(self, pod: Document) -> None:
        with suppress(Refused):
            await self.delete_pod(pod)

    async def _set_status(self, pod: Document, status: Document) -> None:
        with suppress(Refused):  # the pod was deleted meanwhile
            async with self._room:
                await set_status(self._client, pod, status)

    async def _watch(self, plural: str, version: str, handle: Callable[[str, Document], None]) -> None:
        """Follow a kind without end; the API server ends a watch whose client is too slow."""
        async for verb, found in self._client.changes(where(plural, self.namespace), version):
            handle(verb, found)
            self._changed.set()
        raise RuntimeError(f"the watch of {plural} has lost changes")

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            raise error


def runs(pod: Document) -> bool:
    """Whether a pod runs."""
    return bool(pod["status"].get("phase") == "Running")


def _true(job: Document) -> list[str]:
    conditions = job.get("status", {}).get("conditions") or []
    return [condition["type"] for condition in conditions if condition["status"] == "True"]

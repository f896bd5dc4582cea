"""Small jobs of all kinds, some with a disruption, from their creation until their TTL has deleted them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from chaos.history import NamespaceHistory, Version
from support.fake_kubelet import AsyncKubelet
from support.jobs import job
from support.user_client import AsyncClient, Refused, where

#: The kind, restart policy and replicas of a job.
SHAPES: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("TFJob", "ExitCode", {"Chief": 1, "PS": 1, "Worker": 2}),
    ("TFJob", "ExitCode", {"Worker": 2}),
    ("PyTorchJob", "ExitCode", {"Master": 1, "Worker": 2}),
    ("JAXJob", "ExitCode", {"Worker": 3}),
    ("XGBoostJob", "ExitCode", {"Master": 1, "Worker": 1}),
    ("PaddleJob", "ExitCode", {"Worker": 2}),
    ("MPIJob", "Never", {"Launcher": 1, "Worker": 2}),
)
POLICY = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 5, "backoffLimit": 4}
#: Seconds until a job must run, and until it must be deleted; the faults of the soak are shorter.
RUNS, GONE = 90.0, 180.0
UNAVAILABLE = (Refused, aiohttp.ClientError, OSError, TimeoutError)


@dataclass
class Round:
    """The jobs of one namespace, and their ends; `user_versions` and `responses` are users' writes."""

    namespace: str
    api: AsyncClient
    history: NamespaceHistory
    kubelet: AsyncKubelet
    user_versions: set[str] = field(default_factory=set)
    responses: list[Version] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def run(self, number: int) -> None:
        """Run one job to its end."""
        kind, restart, roles = random.choice(SHAPES)
        name, plural, leader = f"j-{number}", f"{kind.lower()}s", next(iter(roles)).lower()
        if not await self._made(plural, job(kind, name, restart=restart, policy=POLICY, **roles)):
            return
        self.counts["jobs"] += 1
        began = time.monotonic()
        if await self._until(
            lambda: self.history.is_true(plural, name, "Running") or not self.there(plural, name), RUNS
        ):
            self.waits.append(time.monotonic() - began)
        else:
            self.stuck.append(f"{self.namespace}/{name}: not running after {RUNS:.0f} s")
        await asyncio.sleep(random.uniform(0.5, 4))
        disruption = random.choice((*DISRUPTIONS, *(None,) * 3))
        if disruption:
            self.counts[disruption.__name__] += 1
            with contextlib.suppress(*UNAVAILABLE, LookupError):
                await disruption(self, plural, name)
            await asyncio.sleep(random.uniform(1, 4))
        end = time.monotonic() + GONE
        while self.there(plural, name) and time.monotonic() < end:
            await self._help(name, leader)
            await asyncio.sleep(0.5)
        if self.there(plural, name):
            self.stuck.append(f"{self.namespace}/{name}: still there after {GONE:.0f} s")

    async def left(self) -> list[str]:
        """Return the objects that remain some time after the last job: leaks."""
        await self._until(lambda: not self._left(), 60)
        return self._left()

    def there(self, plural: str, name: str) -> bool:
        """Return whether an object exists."""
        return name in self.history.now[plural]

    def pods(self, name: str) -> list[dict]:
        """The pods of a job."""
        return [pod for title, pod in list(self.history.now["pods"].items()) if title.startswith(f"{name}-")]

    def running(self, name: str) -> list[dict]:
        """Return the pods that run."""
        found = (pod for pod in self.pods(name) if "deletionTimestamp" not in pod["metadata"])
        return [pod for pod in found if pod["status"].get("phase") == "Running"]

    async def merge(self, plural: str, name: str, patch: dict) -> None:
        """A user's patch, repeated while the server is unavailable."""
        while self.there(plural, name):
            with contextlib.suppress(*UNAVAILABLE):
                found = await self.api.merge(where(plural, self.namespace, name), patch)
                self.user_versions.add(found["metadata"]["resourceVersion"])
                self.responses.append(Version(time.time(), plural, None, found))
                return
            await asyncio.sleep(1)

    async def delete(self, plural: str, name: str) -> None:
        """A user's delete."""
        found = await self.api.call("DELETE", where(plural, self.namespace, name), {})
        self.user_versions.add(found.get("metadata", {}).get("resourceVersion", ""))

    async def _made(self, plural: str, body: dict) -> bool:
        """Create a job, even if the server is unavailable for a while."""
        end = time.monotonic() + RUNS
        while time.monotonic() < end:
            try:
                await self.api.call("POST", where(plural, self.namespace), body)
            except Refused as refused:
                if refused.code != 409:
                    await asyncio.sleep(1)
                    continue
            except UNAVAILABLE:
                await asyncio.sleep(1)
                continue
            return await self._until(lambda: self.there(plural, body["metadata"]["name"]), 30)
        return False

    async def _help(self, name: str, leader: str = "") -> None:
        """Let the leading replicas succeed, and repeat what the kubelet could not do during an outage."""
        for pod in self.pods(name):
            with contextlib.suppress(*UNAVAILABLE):
                if "deletionTimestamp" in pod["metadata"] or "nodeName" not in pod["spec"]:
                    self.kubelet.observe("pods", None, pod)
                elif pod["status"].get("phase") == "Pending":
                    await self.kubelet.run(pod)
                elif leader and f"-{leader}" in pod["metadata"]["name"] and pod["status"].get("phase") == "Running":
                    await self.kubelet.end(pod, 0)

    async def _until(self, question: Callable[[], object], within: float) -> bool:
        end = time.monotonic() + within
        helped = time.monotonic()
        while not question():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.2)
            if time.monotonic() - helped > 3:
                helped = time.monotonic()
                await self._help("j")
        return True

    def _left(self) -> list[str]:
        own = ((plural, name) for plural, found in self.history.now.items() for name in found)
        return [f"{plural}/{name}" for plural, name in own if name.startswith("j-")]


Disruption = Callable[[Round, str, str], Awaitable[None]]


async def failure(found: Round, _plural: str, name: str) -> None:
    """A pod fails with a retryable exit code."""
    await found.kubelet.end(random.choice(found.running(name)), 137)


async def eviction(found: Round, _plural: str, name: str) -> None:
    """A pod is preempted."""
    await found.kubelet.preempt(random.choice(found.running(name)))


async def pod_deleted(found: Round, _plural: str, name: str) -> None:
    """A user deletes a pod."""
    await found.delete("pods", random.choice(found.running(name))["metadata"]["name"])


async def job_deleted(found: Round, plural: str, name: str) -> None:
    """A user deletes the job."""
    await found.delete(plural, name)


async def suspended(found: Round, plural: str, name: str) -> None:
    """A user suspends the job and resumes it."""
    await found.merge(plural, name, {"spec": {"runPolicy": {"suspend": True}}})
    await asyncio.sleep(random.uniform(0.2, 5))
    await found.merge(plural, name, {"spec": {"runPolicy": {"suspend": False}}})


DISRUPTIONS: tuple[Disruption, ...] = (failure, failure, eviction, pod_deleted, job_deleted, suspended)

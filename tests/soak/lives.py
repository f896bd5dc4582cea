"""Small jobs of all kinds, each with a mishap or none, from creation until the last of them is gone by its TTL."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from chaos.api import Api, where
from chaos.history import Pages, Version
from chaos.kubelet import Kubelet
from support.jobs import job
from support.user_client import Refused

#: What a job is made of, its restart policy, and what else its spec says.
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
#: Seconds: until a job must run, and until it must be gone when nothing keeps it; the faults of the soak are shorter.
RUNS, GONE = 90.0, 180.0
TROUBLES = (Refused, aiohttp.ClientError, OSError, TimeoutError)


@dataclass
class Round:
    """The jobs of one namespace, and what has become of them; `mine` and `told` are the versions that users made."""

    namespace: str
    api: Api
    pages: Pages
    kubelet: Kubelet
    mine: set[str] = field(default_factory=set)
    told: list[Version] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def live(self, number: int) -> None:
        """One job's life."""
        kind, restart, roles = random.choice(SHAPES)
        name, plural, leader = f"j-{number}", f"{kind.lower()}s", next(iter(roles)).lower()
        if not await self._made(plural, job(kind, name, restart=restart, policy=POLICY, **roles)):
            return
        self.counts["jobs"] += 1
        began = time.monotonic()
        if await self._until(lambda: self.says(plural, name, "Running") or not self.there(plural, name), RUNS):
            self.waits.append(time.monotonic() - began)
        else:
            self.stuck.append(f"{self.namespace}/{name}: not running after {RUNS:.0f} s")
        await asyncio.sleep(random.uniform(0.5, 4))
        mishap = random.choice((*MISHAPS, *(None,) * 3))
        if mishap:
            self.counts[mishap.__name__] += 1
            with contextlib.suppress(*TROUBLES, LookupError):
                await mishap(self, plural, name)
            await asyncio.sleep(random.uniform(1, 4))
        end = time.monotonic() + GONE
        while self.there(plural, name) and time.monotonic() < end:
            await self._nurse(name, leader)
            await asyncio.sleep(0.5)
        if self.there(plural, name):
            self.stuck.append(f"{self.namespace}/{name}: still there after {GONE:.0f} s")

    async def gone(self) -> list[str]:
        """What is left a while after the last job has gone: leaks."""
        await self._until(lambda: not self._left(), 60)
        return self._left()

    def there(self, plural: str, name: str) -> bool:
        """Whether an object is there."""
        return name in self.pages.now[plural]

    def says(self, plural: str, name: str, condition: str) -> bool:
        """Whether a condition of a job is true."""
        found = (self.pages.now[plural].get(name) or {}).get("status", {}).get("conditions") or ()
        return any(one["type"] == condition and one["status"] == "True" for one in found)

    def pods(self, name: str) -> list[dict]:
        """The pods of a job."""
        return [pod for title, pod in list(self.pages.now["pods"].items()) if title.startswith(f"{name}-")]

    def running(self, name: str) -> list[dict]:
        """Those that run."""
        found = (pod for pod in self.pods(name) if "deletionTimestamp" not in pod["metadata"])
        return [pod for pod in found if pod["status"].get("phase") == "Running"]

    async def merge(self, plural: str, name: str, patch: dict) -> None:
        """A user's patch, by one who insists: a server that is away is asked until it has heard."""
        while self.there(plural, name):
            with contextlib.suppress(*TROUBLES):
                found = await self.api.merge(where(plural, self.namespace, name), patch)
                self.mine.add(found["metadata"]["resourceVersion"])
                self.told.append(Version(time.time(), plural, None, found))
                return
            await asyncio.sleep(1)

    async def delete(self, plural: str, name: str) -> None:
        """A user's delete."""
        found = await self.api.call("DELETE", where(plural, self.namespace, name), {})
        self.mine.add(found.get("metadata", {}).get("resourceVersion", ""))

    async def _made(self, plural: str, body: dict) -> bool:
        """Create a job, however long the server is away."""
        end = time.monotonic() + RUNS
        while time.monotonic() < end:
            try:
                await self.api.call("POST", where(plural, self.namespace), body)
            except Refused as refused:
                if refused.code != 409:
                    await asyncio.sleep(1)
                    continue
            except TROUBLES:
                await asyncio.sleep(1)
                continue
            return await self._until(lambda: self.there(plural, body["metadata"]["name"]), 30)
        return False

    async def _nurse(self, name: str, leader: str = "") -> None:
        """Let those who lead succeed, and do anew what the kubelet could not do while the server was away."""
        for pod in self.pods(name):
            with contextlib.suppress(*TROUBLES):
                if "deletionTimestamp" in pod["metadata"] or "nodeName" not in pod["spec"]:
                    self.kubelet.hear(self.namespace, Version(time.time(), "pods", None, pod))
                elif pod["status"].get("phase") == "Pending":
                    await self.kubelet.run(pod)
                elif leader and f"-{leader}" in pod["metadata"]["name"] and pod["status"].get("phase") == "Running":
                    await self.kubelet.end(pod, 0)

    async def _until(self, question: Callable[[], object], within: float) -> bool:
        end = time.monotonic() + within
        nursed = time.monotonic()
        while not question():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.2)
            if time.monotonic() - nursed > 3:
                nursed = time.monotonic()
                await self._nurse("j")
        return True

    def _left(self) -> list[str]:
        ours = ((plural, name) for plural, found in self.pages.now.items() for name in found)
        return [f"{plural}/{name}" for plural, name in ours if name.startswith("j-")]


Mishap = Callable[[Round, str, str], Awaitable[None]]


async def failure(found: Round, _plural: str, name: str) -> None:
    """A pod fails in a way that is worth another try."""
    await found.kubelet.end(random.choice(found.running(name)), 137)


async def eviction(found: Round, _plural: str, name: str) -> None:
    """A pod is preempted."""
    await found.kubelet.evict(random.choice(found.running(name)))


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


MISHAPS: tuple[Mishap, ...] = (failure, failure, eviction, pod_deleted, job_deleted, suspended)

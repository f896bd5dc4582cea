"""Reads what the view of the cluster shows besides jobs: the operator's health, queues and nodes, each if permitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_count, parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.client import ApiError, Forbidden, NotFound
from trainshed.client.job_reader import KUEUE, JobReader
from trainshed.client.lists import DOCUMENTS
from trainshed.client.node_reader import read_nodes
from trainshed.client.transport import Path
from trainshed.fit.kueue_queues import cluster_queue_name, groups
from trainshed.process import Clock
from trainshed.views.diagnosis import Diagnosis, Verdict
from trainshed.views.rows import name_of, namespace_of

from .device_use import offered

T = TypeVar("T")
#: Seconds for which what was read is shown before it is read again, and that a page waits for it when it is opened.
FRESH, PATIENCE = 60.0, 1.5
#: The most queues that are kept.
MOST_QUEUES = 500
#: What the operator's health is examined with: as `trainshed doctor` does.
Examine = Callable[[], AsyncIterator[Diagnosis]]


class LocalQueue(msgspec.Struct, frozen=True):
    """A LocalQueue of Kueue: how many Workloads wait in it, and have quota; `stopped` is its stop policy, if any."""

    namespace: str
    name: str
    cluster_queue: str
    waiting: int
    admitted: int
    stopped: str


class FlavorQuota(msgspec.Struct, frozen=True):
    """What a ClusterQueue has of a resource in a flavour, in thousandths: its quota, and what is used of it."""

    flavor: str
    resource: str
    nominal: int
    used: int


class ClusterQueue(msgspec.Struct, frozen=True):
    """A ClusterQueue of Kueue; `problem` is why it admits nothing, empty if it does."""

    name: str
    waiting: int
    admitted: int
    quotas: tuple[FlavorQuota, ...]
    problem: str


class ClusterFile(msgspec.Struct, frozen=True):
    """What was read of a cluster at a time; None is what has not been read, or may not be.

    `unread` is which right a part needs, and `errors` why one was not read. Without Kueue there are no queues.
    """

    read: datetime | None = None
    health: tuple[Diagnosis, ...] = ()
    offers: Mapping[str, int] | None = None
    local_queues: tuple[LocalQueue, ...] | None = None
    cluster_queues: tuple[ClusterQueue, ...] | None = None
    unread: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}


class ClusterReader:
    """Reads a cluster when it is asked to, and not again for a minute; `examine` is None where there is no operator."""

    def __init__(self, reader: JobReader, namespace: str, examine: Examine | None) -> None:
        self._reader, self._namespace, self._examine = reader, namespace, examine
        self.has_operator, self._clock = examine is not None, Clock()
        self.known = ClusterFile()
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> ClusterFile:
        """Return what is known; what is old is read again meanwhile, and is waited for a little if nothing is known."""
        is_old = self.known.read is None or (self._clock.now() - self.known.read).total_seconds() >= FRESH
        if is_old and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read())
        if self.known.read is None and self._reading:
            await asyncio.wait([self._reading], timeout=PATIENCE)
        return self.known

    async def close(self) -> None:
        """Stop what is being read."""
        if self._reading:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self) -> None:
        unread, errors = dict[str, str](), dict[str, str]()

        async def permitted(part: str, right: str, work: Awaitable[T]) -> T | None:
            try:
                return await work
            except Forbidden:
                unread[part] = right
            except ApiError as error:
                errors[part] = one_line(str(error))
            return None

        where = f"in namespace {self._namespace}" if self._namespace else "in the whole cluster"
        nodes, local, cluster, health = await asyncio.gather(
            permitted("nodes", "list nodes in the whole cluster", read_nodes(self._reader.rest)),
            permitted("LocalQueues", f"list localqueues.kueue.x-k8s.io {where}", self._local_queues()),
            permitted(
                "ClusterQueues", "list clusterqueues.kueue.x-k8s.io in the whole cluster", self._cluster_queues()
            ),
            permitted("the operator", "read the operator's Deployment", self._health()),
        )
        self.known = ClusterFile(
            self._clock.now(), health or (), None if nodes is None else offered(nodes), local, cluster, unread, errors
        )

    async def _health(self) -> tuple[Diagnosis, ...]:
        return tuple([found async for found in self._examine()]) if self._examine else ()

    async def _local_queues(self) -> tuple[LocalQueue, ...]:
        found = await self._listed(Path(KUEUE, "localqueues", self._namespace))
        return tuple(map(_local_queue, found))

    async def _cluster_queues(self) -> tuple[ClusterQueue, ...]:
        return tuple(map(_cluster_queue, await self._listed(Path(KUEUE, "clusterqueues"))))

    async def _listed(self, path: Path) -> list[Document]:
        try:
            return (await self._reader.read_list(path, DOCUMENTS, {}, MOST_QUEUES))[:MOST_QUEUES]
        except NotFound:
            return []


def _local_queue(found: Document) -> LocalQueue:
    status = as_mapping(found.get("status"))
    return LocalQueue(
        namespace_of(found),
        name_of(found),
        cluster_queue_name(found),
        parse_count(status.get("pendingWorkloads")),
        parse_count(status.get("admittedWorkloads")),
        _stop_policy(found),
    )


def _cluster_queue(found: Document) -> ClusterQueue:
    status = as_mapping(found.get("status"))
    quotas = (
        FlavorQuota(flavor.name, resource, nominal, flavor.used.get(resource, 0))
        for group in groups(found)
        for flavor in group.flavors
        for resource, nominal in flavor.nominal.items()
    )
    conditions = map(as_mapping, as_sequence(status.get("conditions")))
    active = next((item for item in conditions if item.get("type") == "Active"), {})
    stopped = _stop_policy(found)
    inactive = parse_text(active.get("message")) if active.get("status") == "False" else ""
    return ClusterQueue(
        name_of(found),
        parse_count(status.get("pendingWorkloads")),
        parse_count(status.get("admittedWorkloads")),
        tuple(quotas),
        f"stopped ({stopped})" if stopped else f"not active: {inactive}" if inactive else "",
    )


def _stop_policy(found: Document) -> str:
    policy = parse_text(as_mapping(found.get("spec")).get("stopPolicy"))
    return "" if policy in ("", "None") else policy


def not_permitted(file: ClusterFile) -> str:
    """Return in one sentence what is not shown and what to ask for; empty if all is shown."""
    unknown = [found for found in file.health if found.verdict is Verdict.UNKNOWN]
    asked = [found.message.partition("ask for the right to ")[2] or found.message for found in unknown]
    parts = dict.fromkeys((*(found.part for found in unknown), *file.unread))
    rights = dict.fromkeys((*asked, *file.unread.values()))
    if not parts:
        return ""
    return f"Not shown, as you may not look: {', '.join(parts)}. Ask for the right to {'; '.join(rights)}."


def not_answered(file: ClusterFile) -> str:
    """Return in one sentence what was not read because of errors, and which; empty if all was read."""
    errors = dict.fromkeys(file.errors.values())
    return f"Not read: {', '.join(file.errors)}: {'; '.join(errors)}." if errors else ""

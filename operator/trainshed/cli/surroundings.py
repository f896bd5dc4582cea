"""Reads what plans of jobs depend on, each once, as far as permitted: quotas, limits, nodes, classes and queues."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.job import KUEUE_PREFIX, Document
from trainshed.client import ApiError, Forbidden
from trainshed.client.node_reader import ALL_PODS, NODES, UsedRoom, read_nodes, read_used, with_used
from trainshed.client.transport import Path, RestClient
from trainshed.fit import kueue_queues, limit_ranges, needed_objects, packing, quotas
from trainshed.fit.assessment import BAD, Assessment, Fit
from trainshed.fit.demands import RoleDemand
from trainshed.fit.limit_ranges import Bounds
from trainshed.fit.needed_objects import Reference
from trainshed.fit.packing import RoomOfNode
from trainshed.fit.quotas import Quota
from trainshed.views.diagnosis import Unreadable

from .permitted import api_groups, listed, prefix_of, readable, right

T = TypeVar("T")
CORE, SCHEDULING, RUNTIMES = "/api/v1", "/apis/scheduling.k8s.io/v1", "/apis/node.k8s.io/v1"
#: Where the objects are that pods name; those of classes have no namespace.
PLURALS = {
    needed_objects.CONFIG_MAP: (CORE, "configmaps"),
    needed_objects.SECRET: (CORE, "secrets"),
    needed_objects.CLAIM: (CORE, "persistentvolumeclaims"),
    needed_objects.ACCOUNT: (CORE, "serviceaccounts"),
    needed_objects.PRIORITY: (SCHEDULING, "priorityclasses"),
    needed_objects.RUNTIME: (RUNTIMES, "runtimeclasses"),
}
#: The names that objects can have: others, such as `../x`, would be other paths.
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
#: The most objects of those that pods name that are looked for, and how many at a time.
MOST_NEEDED, AT_A_TIME = 200, 8
KUEUE = KUEUE_PREFIX.rstrip("/")


class ClusterRoom(msgspec.Struct, frozen=True):
    """The nodes as if they were empty, and what is used of them."""

    nodes: list[RoomOfNode] | Unreadable
    used: UsedRoom | Unreadable


async def permitted(work: Awaitable[T], verb: str, path: Path) -> T | Unreadable:
    """Return what was read, or the right that the caller lacks for it; raises an `ApiError`."""
    try:
        return await work
    except Forbidden:
        return Unreadable(right(verb, path))


def unknown(part: str, what: str, refused: Unreadable) -> Assessment:
    """Return what is said about what the caller may not look at."""
    return Assessment(Fit.UNKNOWN, part, f"{what}: {refused.advice}")


async def assessed(part: str, work: Awaitable[list[Assessment]]) -> list[Assessment]:
    """Return what was found, or that the API server does not say: the other parts are assessed all the same."""
    try:
        return await work
    except ApiError as error:
        return [Assessment(Fit.UNKNOWN, part, f"{part}: the API server does not say: {error}")]


class Surroundings:
    """What jobs of one plan share. What a job that fits takes is taken for those after it."""

    def __init__(self, rest: RestClient, files: frozenset[tuple[str, str, str]] = frozenset()) -> None:
        """`files` are objects that the files have beside jobs: kind, namespace, and name."""
        self._rest, self._files = rest, files
        self._quotas: dict[str, list[Quota] | Unreadable] = {}
        self._limits: dict[str, list[Bounds] | Unreadable] = {}
        self._room: ClusterRoom | None = None
        self._classes: list[Document] | Unreadable | None = None

    async def limits(self, namespace: str) -> list[Bounds] | Unreadable:
        """Return the LimitRanges of a namespace; raises an `ApiError`."""
        if namespace not in self._limits:
            found = await listed(self._rest, Path(CORE, "limitranges", namespace))
            self._limits[namespace] = found if isinstance(found, Unreadable) else limit_ranges.bounds(found)
        return self._limits[namespace]

    async def quotas(self, namespace: str) -> list[Quota] | Unreadable:
        """Return the ResourceQuotas of a namespace; raises an `ApiError`."""
        if namespace not in self._quotas:
            found = await listed(self._rest, Path(CORE, "resourcequotas", namespace))
            self._quotas[namespace] = found if isinstance(found, Unreadable) else list(map(quotas.quota, found))
        return self._quotas[namespace]

    async def priority_classes(self) -> list[Document] | Unreadable:
        """Return the PriorityClasses; raises an `ApiError`."""
        if self._classes is None:
            self._classes = await listed(self._rest, Path(SCHEDULING, "priorityclasses"))
        return self._classes

    async def room(self) -> ClusterRoom:
        """Return the nodes and what is used of them; raises an `ApiError`."""
        if self._room is None:
            found = await asyncio.gather(
                permitted(read_nodes(self._rest), "list", NODES), permitted(read_used(self._rest), "list", ALL_PODS)
            )
            self._room = ClusterRoom(*found)
        return self._room

    async def limited(self, namespace: str, demands: Sequence[RoleDemand]) -> list[Assessment]:
        """Return what the LimitRanges of a namespace refuse."""
        found = await self.limits(namespace)
        if isinstance(found, Unreadable):
            return [unknown(limit_ranges.PART, "whether pods are within the LimitRanges", found)]
        return [item for demand in demands for item in limit_ranges.assess(found, demand)]

    async def within_quotas(
        self, namespace: str, demands: Sequence[RoleDemand], objects: dict[str, int]
    ) -> list[Assessment]:
        """Return what the quotas of a namespace say."""
        known = await self.quotas(namespace)
        if isinstance(known, Unreadable):
            return [unknown(quotas.PART, "whether quotas have room", known)]
        found, after = quotas.assess(known, demands, objects)
        if not any(item.fit in BAD for item in found):
            self._quotas[namespace] = after
        return found

    async def on_nodes(self, demands: Sequence[RoleDemand]) -> list[Assessment]:
        """Return whether the nodes have room."""
        if not demands:
            return []
        room = await self.room()
        beside = list(packing.not_counted(demands))
        if isinstance(room.nodes, Unreadable):
            return [unknown(packing.PART, "whether nodes have room", room.nodes), *beside]
        if isinstance(room.used, Unreadable):
            found, _ = packing.assess(demands, room.nodes)
            bad = [replace(one, message=f"{one.message} (without all other pods)") for one in found if one.fit in BAD]
            return [*bad, unknown(packing.PART, "what other pods take of the nodes", room.used), *beside]
        found, after = packing.assess(demands, with_used(room.nodes, room.used), waiting=room.used.waiting)
        if not any(item.fit in BAD for item in found):
            self._room = ClusterRoom(list(after), UsedRoom({}, room.used.waiting))
        return [*found, *beside]

    async def needed(self, namespace: str, wanted: Iterable[tuple[Reference, str]]) -> list[Assessment]:
        """Return which of the objects that pods of a role name do not exist."""
        roles = dict(reversed(list(wanted)))  # of several roles the first one is named
        chosen = list(reversed(roles))[:MOST_NEEDED]
        turn = asyncio.Semaphore(AT_A_TIME)

        async def read(reference: Reference) -> Document | Unreadable | None:
            prefix, plural = PLURALS[reference[0]]
            if not NAME.fullmatch(reference[1]):
                return None
            async with turn:
                return await readable(
                    self._rest,
                    Path(prefix, plural, "" if reference[0] in needed_objects.CLASSES else namespace, reference[1]),
                )

        found, refused = list[Assessment](), dict[str, list[str]]()
        for reference, answer in zip(chosen, await asyncio.gather(*map(read, chosen)), strict=True):
            if answer is None and (reference[0], namespace, reference[1]) in self._files:
                text = f"{' '.join(reference)} does not exist yet; the files have it, and kubectl apply creates it"
                found.append(Assessment(Fit.WARNING, needed_objects.PART, text))
            elif answer is None:
                found.append(needed_objects.missing(reference, roles[reference], namespace))
            elif isinstance(answer, Unreadable):
                refused.setdefault(answer.advice, []).append(" ".join(reference))
        for advice, names in refused.items():
            found.append(Assessment(Fit.UNKNOWN, needed_objects.PART, f"whether there is {', '.join(names)}: {advice}"))
        if len(roles) > len(chosen):
            text = f"whether {len(roles) - len(chosen)} more objects exist that pods name: too many to look"
            found.append(Assessment(Fit.UNKNOWN, needed_objects.PART, text))
        return found

    async def in_queue(self, namespace: str, name: str, demands: Sequence[RoleDemand]) -> list[Assessment]:
        """Return what a LocalQueue of Kueue and its ClusterQueue say."""
        part = kueue_queues.PART
        groups = await api_groups(self._rest)
        if isinstance(groups, Unreadable):
            return [unknown(part, "whether the cluster has Kueue", groups)]
        if KUEUE not in groups:
            text = f"the job names queue {name}, but the cluster has no Kueue: nothing starts or holds the job for it"
            return [Assessment(Fit.WARNING, part, text)]
        prefix = prefix_of(groups[KUEUE])
        path = Path(prefix, "localqueues", namespace, name)
        local = await readable(self._rest, path) if NAME.fullmatch(name) else None
        if isinstance(local, Unreadable):
            return [unknown(part, f"whether LocalQueue {name} has room", local)]
        found = list(kueue_queues.of_local(name, local))
        if local is None:
            return found
        target = kueue_queues.cluster_queue_name(local)
        cluster = await readable(self._rest, Path(prefix, "clusterqueues", "", target))
        if isinstance(cluster, Unreadable):
            waiting = kueue_queues.waiting_before(f"LocalQueue {name}", local)
            return [*found, *waiting, unknown(part, f"whether ClusterQueue {target} has quota left", cluster)]
        return [*found, *kueue_queues.of_cluster(target, demands, cluster)]


def class_of(name: str, classes: Sequence[Document]) -> Document:
    """Return the PriorityClass of this name, or without a name the one for all; empty if there is none."""
    for item in classes:
        own = parse_text(as_mapping(item.get("metadata")).get("name"))
        if own == name or (not name and item.get("globalDefault") is True):
            return item
    return {}

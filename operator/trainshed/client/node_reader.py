"""Reads the nodes of a cluster and what its pods take of them; of the pods only sums are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from trainshed.fit.amounts import LAST, PODS, UNIT, parsed
from trainshed.fit.demands import Port, host_ports, pod_amounts
from trainshed.fit.node_selection import UNSCHEDULABLE, Taint
from trainshed.fit.packing import RoomOfNode, WaitingPods

from .lists import Decoder, decode_items, list_pages
from .transport import Path, RestClient

CORE = "/api/v1"
NODES, ALL_PODS = Path(CORE, "nodes"), Path(CORE, "pods")
#: The most resources of a pod, and of the pods of a priority on a node, that are counted: users who name a node
#: themselves may name any number of them.
MOST_NAMES, MOST_OF_NODE = 32, 512
#: The most kinds of pods that wait for a node; those of others are counted as if any node would do.
MOST_KINDS, OTHERS = 64, b""
#: Pods that have ended take nothing.
NOT_ENDED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


class ResourceRequirements(msgspec.Struct, gc=False):
    """What a container or a pod requests."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class HostPort(msgspec.Struct, gc=False, rename="camel"):
    """A port of a container."""

    host_port: int | None = None
    container_port: int | None = None
    protocol: str | None = None


class RequestingContainer(msgspec.Struct, gc=False, rename="camel"):
    """What is read of a container."""

    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[HostPort] | None = None


class SchedulingGate(msgspec.Struct, gc=False):
    """A gate that keeps a pod from the scheduler; only whether there is one counts."""


class TolerationOfPod(msgspec.Struct, gc=False):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeExpression(msgspec.Struct, gc=False):
    """An expression of a term."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeTerm(msgspec.Struct, gc=False, rename="camel"):
    """One of the terms of which a node has to match one."""

    match_expressions: list[NodeExpression] | None = None
    match_fields: list[NodeExpression] | None = None


class NodeTerms(msgspec.Struct, gc=False, rename="camel"):
    """The terms of which a node has to match one."""

    node_selector_terms: list[NodeTerm] | None = None


class NodeAffinity(msgspec.Struct, gc=False, rename="camel"):
    """The affinity to nodes that is required."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None


class AffinityOfPod(msgspec.Struct, gc=False, rename="camel"):
    """What is read of the affinity of a pod."""

    node_affinity: NodeAffinity | None = None


class RequestingSpec(msgspec.Struct, gc=False, rename="camel"):
    """What is read of the spec of a pod."""

    node_name: str | None = None
    priority: int | None = None
    host_network: bool | None = None
    containers: list[RequestingContainer] | None = None
    init_containers: list[RequestingContainer] | None = None
    overhead: dict[str, str] | None = None
    resources: ResourceRequirements | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[TolerationOfPod] | None = None
    affinity: AffinityOfPod | None = None


class RequestingPod(msgspec.Struct, gc=False):
    """A pod."""

    spec: RequestingSpec | None = None


class TaintOfNode(msgspec.Struct, gc=False):
    """A taint."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeMeta(msgspec.Struct, gc=False):
    """The metadata of a node."""

    name: str = ""
    labels: dict[str, str] | None = None


class NodeSpec(msgspec.Struct, gc=False):
    """What is read of the spec of a node."""

    unschedulable: bool | None = None
    taints: list[TaintOfNode] | None = None


class NodeStatus(msgspec.Struct, gc=False):
    """What is read of the status of a node."""

    allocatable: dict[str, str] | None = None


class NodeObject(msgspec.Struct, gc=False):
    """A node, as the API server sends it."""

    metadata: NodeMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class UsedOfNode:
    """The sums of the pods of a node by their priority, and the ports of the node that they take."""

    __slots__ = ("by_priority", "ports")

    def __init__(self) -> None:
        self.by_priority: defaultdict[int, dict[str, int]] = defaultdict(dict)
        self.ports: set[Port] = set()

    def add(self, spec: dict[str, Any]) -> None:
        """Count a pod."""
        sums = self.by_priority[spec["priority"] or 0]
        found = pod_amounts(spec, "requests")
        if len(found) > MOST_NAMES:
            found = dict(sorted(found.items(), key=lambda item: item[0] not in LAST)[:MOST_NAMES])
        for name, amount in (*found.items(), (PODS, UNIT)):
            if name in sums or len(sums) < MOST_OF_NODE or name in LAST:
                sums[name] = sums.get(name, 0) + amount
        self.ports |= host_ports(spec)


class UsedRoom(msgspec.Struct, frozen=True):
    """What pods take of nodes, by the names of these, and the pods that wait for a node, those of a kind together."""

    used: dict[str, UsedOfNode]
    waiting: tuple[WaitingPods, ...]


def empty_node(found: NodeObject) -> RoomOfNode:
    """Return a node as if it had no pods."""
    spec, labels = found.spec or NodeSpec(), found.metadata.labels or {}
    taints = [Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ()]
    if spec.unschedulable:
        taints.insert(0, Taint(UNSCHEDULABLE, "", "NoSchedule"))
    # A device plug-in that is gone leaves its resource with zero.
    offered = parsed((found.status or NodeStatus()).allocatable).items()
    allocatable = {name: amount for name, amount in offered if amount > 0}
    return RoomOfNode(found.metadata.name, labels, tuple(taints), allocatable)


NODE: Decoder[RoomOfNode] = Decoder(
    msgspec.json.Decoder(NodeObject), lambda found, _: empty_node(found), {"spec": NodeSpec, "status": NodeStatus}
)
POD: Decoder[RequestingSpec] = Decoder(
    msgspec.json.Decoder(RequestingPod), lambda found, _: found.spec or RequestingSpec(), {"spec": RequestingSpec}
)


async def read_nodes(rest: RestClient) -> list[RoomOfNode]:
    """Return the nodes as if they had no pods; raises an `ApiError`."""
    return [node async for page in list_pages(rest, NODES, {}) for node in decode_items(NODE, page, "nodes")]


async def read_used(rest: RestClient) -> UsedRoom:
    """Return what the pods of all namespaces take of the nodes; raises an `ApiError`."""
    used: defaultdict[str, UsedOfNode] = defaultdict(UsedOfNode)
    waiting: dict[bytes, WaitingPods] = {}
    async for spec in _pods(rest):
        if spec.node_name:
            used[spec.node_name].add(msgspec.to_builtins(spec))
        elif not spec.scheduling_gates:
            key = msgspec.json.encode(spec) if len(waiting) < MOST_KINDS else OTHERS
            before = waiting.get(key)
            if before is None:
                known = msgspec.to_builtins(spec) if key is not OTHERS else {}
                before = WaitingPods(known, pod_amounts(known, "requests"), host_ports(known), spec.priority)
            waiting[key] = msgspec.structs.replace(before, count=before.count + 1)
    return UsedRoom(dict(used), tuple(waiting.values()))


async def _pods(rest: RestClient) -> AsyncIterator[RequestingSpec]:
    async for page in list_pages(rest, ALL_PODS, NOT_ENDED):
        for spec in decode_items(POD, page, "pods"):
            yield spec


def with_used(nodes: list[RoomOfNode], room: UsedRoom) -> list[RoomOfNode]:
    """Return the nodes with what their pods leave."""
    return [_filled(node, room.used[node.name]) if node.name in room.used else node for node in nodes]


def _filled(node: RoomOfNode, used: UsedOfNode) -> RoomOfNode:
    free = dict(node.free)
    for sums in used.by_priority.values():
        for name, amount in sums.items():
            if name in free:
                free[name] -= amount
    lower = tuple(sorted(used.by_priority.items(), key=lambda item: item[0]))
    return msgspec.structs.replace(node, free=free, ports=frozenset(used.ports), lower=lower)

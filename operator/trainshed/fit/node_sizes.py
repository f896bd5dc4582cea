"""Whether nodes would take the pods of a job if nothing else ran there: which ones, or what the largest has.

What fits here and waits all the same waits for room. What does not fit has none, whatever else ends. Affinity and
spread of pods, volumes, and what the cluster adds to pods itself are not counted: with them less fits, never more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from .amounts import LAST, PODS, UNIT, Amounts, total
from .demands import RoleDemand
from .node_selection import excluded
from .packing import RoomOfNode, pack, room_for


class Largest(msgspec.Struct, frozen=True):
    """What a pod asks for of a resource, and the most that a node which it may use has; in thousandths."""

    resource: str
    asked: int
    most: int
    node: str


class OnNodes(msgspec.Struct, frozen=True):
    """How empty nodes suit the pods of a role.

    `fits` are the nodes that are large enough, and `usable` how many the pods may use. `largest` are the resources of
    which no such node has enough: empty with nothing in `fits` if none has enough of all at once. `kept` says why the
    pods may use no other node, and for how many that holds.
    """

    fits: tuple[str, ...]
    usable: int
    largest: tuple[Largest, ...]
    kept: tuple[tuple[str, int], ...]


def on_nodes(demand: RoleDemand, nodes: Sequence[RoomOfNode]) -> OnNodes:
    """Return how nodes without pods suit the pods of a role."""
    reasons = [excluded(demand.spec, node.name, node.labels, node.taints) for node in nodes]
    usable = [node for node, reason in zip(nodes, reasons, strict=True) if not reason]
    asked = _asked(demand)
    fits = tuple(node.name for node in usable if room_for(asked, frozenset(), node))
    kept = tuple(Counter(filter(None, reasons)).most_common())
    return OnNodes(fits, len(usable), () if fits else tuple(_largest(asked, usable)), kept)


def _asked(demand: RoleDemand) -> Amounts:
    return {name: amount for name, amount in demand.requests.items() if amount > 0} | {PODS: UNIT}


def _largest(asked: Amounts, nodes: Sequence[RoomOfNode]) -> Iterator[Largest]:
    """Yield the resources of which no node has enough, devices first."""
    for name, amount in sorted(asked.items(), key=lambda item: (item[0] in LAST, item[0])):
        rooms = [(node.free.get(name, 0), node.name) for node in nodes]
        if rooms and (best := max(rooms))[0] < amount:
            yield Largest(name, amount, *best)


def beyond_all(demands: Iterable[RoleDemand], nodes: Sequence[RoomOfNode]) -> Mapping[str, tuple[int, int]]:
    """Return the resources of which all nodes that these pods may use have too little together: asked, and there."""
    every = list(demands)
    usable = [
        node for node in nodes if any(not excluded(one.spec, node.name, node.labels, node.taints) for one in every)
    ]
    asked, there = total(demand.total for demand in every), total(node.free for node in usable)
    return {name: (amount, there.get(name, 0)) for name, amount in asked.items() if amount > there.get(name, 0)}


def placed(demand: RoleDemand, nodes: Sequence[RoomOfNode]) -> int:
    """Return how many pods of one role nodes without other pods take at once, which is exact."""
    return pack([demand], nodes).count

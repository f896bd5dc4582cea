"""Whether the pods of all roles find room on the nodes at once: an attempt to place each of them.

Pods of one role ask for the same, so that for one role the attempt is exact. For several it tries some orders, and a
job that none of them places may still fit; it is said which of the two it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations

import msgspec
from msgspec.structs import replace

from trainshed.api.coerce import as_mapping, as_sequence

from .amounts import LAST, PODS, UNIT, Amounts, less, listed, shown, times, total
from .assessment import Assessment, Fit
from .demands import Port, RoleDemand, host_ports
from .node_selection import Taint, excluded

PART = "Nodes"
#: The most roles whose orders are all tried; of more the largest ones come first.
MOST_ORDERED = 3
#: The reasons that a sentence lists; the rest are counted.
REASONS = 4
WITH_ROOM, PORT_TAKEN = "with room", "whose port is taken"


class RoomOfNode(msgspec.Struct, frozen=True):
    """A node with what is free on it; `lower` are the sums of its pods by their priority, the lowest first."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: Amounts
    ports: frozenset[Port] = frozenset()
    lower: tuple[tuple[int, Amounts], ...] = ()


class WaitingPods(msgspec.Struct, frozen=True):
    """Pods of a kind that have no node yet: what they select nodes by, what each takes, and how many there are."""

    spec: Mapping[str, object]
    requests: Amounts
    ports: frozenset[Port]
    priority: int | None
    count: int = 0

    def may_run_on(self, node: RoomOfNode) -> bool:
        """Return whether a node has room for one of them."""
        asked = {name: amount for name, amount in self.requests.items() if amount > 0} | {PODS: UNIT}
        is_excluded = excluded(self.spec, node.name, node.labels, node.taints)
        return not is_excluded and room_for(asked, self.ports, node) > 0


class _Want(msgspec.Struct, frozen=True):
    """A role: what each of its pods takes, and the nodes on which it may run, by number."""

    demand: RoleDemand
    requests: Mapping[str, int]
    ports: frozenset[Port]
    places: tuple[int, ...]


class Packing(msgspec.Struct, frozen=True):
    """How many pods of each role an attempt has placed, and the nodes with what is left then."""

    placed: Mapping[str, int]
    nodes: tuple[RoomOfNode, ...]

    @property
    def count(self) -> int:
        """The number of pods that are placed."""
        return sum(self.placed.values())


def pack(demands: Sequence[RoleDemand], nodes: Sequence[RoomOfNode]) -> Packing:
    """Return the attempt that places the most pods."""
    wants = [_want(demand, nodes) for demand in demands if demand.count]
    best = Packing({}, tuple(nodes))
    for order in _orders(wants):
        for fullest in (True, False):
            found = _attempt(order, nodes, fullest=fullest)
            if not best.placed or found.count > best.count:
                best = found
            if best.count == sum(demand.count for demand in demands):
                return best
    return best


def _want(demand: RoleDemand, nodes: Sequence[RoomOfNode]) -> _Want:
    places = (number for number, node in enumerate(nodes) if not _excluded(demand, node))
    asked = {name: amount for name, amount in demand.requests.items() if amount > 0} | {PODS: UNIT}
    return _Want(demand, asked, host_ports(demand.spec), tuple(places))


def _excluded(demand: RoleDemand, node: RoomOfNode) -> str:
    return excluded(demand.spec, node.name, node.labels, node.taints)


def _orders(wants: Sequence[_Want]) -> Iterator[Sequence[_Want]]:
    largest = sorted(
        wants, key=lambda want: (len(want.places), *(-want.requests[name] for name in sorted(want.requests)))
    )
    if len(wants) <= MOST_ORDERED:
        yield from permutations(largest)
    else:
        yield from (largest, largest[::-1])


def _attempt(order: Sequence[_Want], nodes: Sequence[RoomOfNode], *, fullest: bool) -> Packing:
    """Place the roles one after another, first on the nodes that have room for the fewest of its pods, or the most."""
    left, placed = list(nodes), dict[str, int]()
    for want in order:
        rooms = ((room_for(want.requests, want.ports, left[number]), number) for number in want.places)
        missing = want.demand.count
        for room, number in sorted((item for item in rooms if item[0]), reverse=not fullest):
            if not missing:
                break
            count = min(room, missing)
            missing -= count
            node = left[number]
            free = less(node.free, times(want.requests, count))
            left[number] = replace(node, free=free, ports=node.ports | want.ports)
        placed[want.demand.role] = want.demand.count - missing
    return Packing(placed, tuple(left))


def room_for(requests: Amounts, ports: frozenset[Port], node: RoomOfNode) -> int:
    """Return how many pods with these requests and ports of the node have room; `requests` have no zero."""
    if ports and ports & node.ports:
        return 0
    free = node.free
    room = min(free.get(name, 0) // amount for name, amount in requests.items())
    return max(0, min(room, 1) if ports else room)


def assess(
    demands: Sequence[RoleDemand], nodes: Sequence[RoomOfNode], *, waiting: Sequence[WaitingPods] = ()
) -> tuple[list[Assessment], tuple[RoomOfNode, ...]]:
    """Return whether all pods find a node, and the nodes with what is left then.

    Of the pods that are `waiting` for a node those are named that may take what the job does. What does not fit is
    tried again without the pods of lower priority, if the priority is known.
    """
    found = pack(demands, nodes)
    size = sum(demand.count for demand in demands)
    if found.count == size:
        used = [before for before, after in zip(nodes, found.nodes, strict=True) if before is not after]
        message = "the pod finds room"
        if size > 1:
            message = f"all {size} pods find room on {len(used)} of {_nodes(len(nodes))}"
        return [Assessment(Fit.OK, PART, message), *_competing(demands, used, waiting)], found.nodes
    if size == (preempting := _preempting(demands, nodes)).count:
        gone = sum(before is not after for before, after in zip(nodes, preempting.nodes, strict=True))
        message = (
            f"{found.count} of {_find('', size, found.count)} room, and the others only by preempting pods of lower "
            f"priority, on {_nodes(gone)} at most"
        )
        return [Assessment(Fit.WARNING, PART, message)], tuple(nodes)
    return [Assessment(Fit.LACKING, PART, text) for text in _missing(demands, nodes, found)], tuple(nodes)


#: What keeps pods from nodes and is not compared with them, by the field of the pod.
NOT_COUNTED = {
    "podAffinity": "required pod affinity",
    "podAntiAffinity": "required pod anti-affinity",
    "topologySpreadConstraints": "topology spread constraints",
    "resourceClaims": "resource claims (DRA)",
}


def not_counted(demands: Iterable[RoleDemand]) -> Iterator[Assessment]:
    """Yield what the pods of a role demand of nodes and nothing here compares with them."""
    for demand in demands:
        affinity = as_mapping(demand.spec.get("affinity"))
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        found = [
            NOT_COUNTED[kind] for kind in affinity if kind in NOT_COUNTED and as_mapping(affinity[kind]).get(required)
        ]
        spread = as_sequence(demand.spec.get("topologySpreadConstraints"))
        if any(as_mapping(item).get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for item in spread):
            found.append(NOT_COUNTED["topologySpreadConstraints"])
        if as_sequence(demand.spec.get("resourceClaims")):
            found.append(NOT_COUNTED["resourceClaims"])
        if found:
            text = f"whether nodes match the {' and '.join(found)} of {demand.role}: plan does not compare them"
            yield Assessment(Fit.UNKNOWN, PART, text)


def _competing(
    demands: Sequence[RoleDemand], used: Sequence[RoomOfNode], waiting: Sequence[WaitingPods]
) -> list[Assessment]:
    """Return how many pods may take the room on the nodes that are used: those of a lower priority do not."""
    lowest = min((demand.priority or 0 for demand in demands), default=0)
    rivals = (item for item in waiting if (item.priority or 0) >= lowest)
    count = sum(item.count for item in rivals if any(map(item.may_run_on, used)))
    if not count:
        return []
    what = "1 pod in the cluster waits" if count == 1 else f"{count} pods in the cluster wait"
    return [Assessment(Fit.WARNING, PART, f"{what} for a node, and may take this room before")]


def _preempting(demands: Sequence[RoleDemand], nodes: Sequence[RoomOfNode]) -> Packing:
    """Return the attempt that counts pods of lower priority as gone; nothing is placed if no priority is known."""
    known = [demand.priority for demand in demands if demand.priority is not None and _preempts(demand)]
    if len(known) < len(demands) or not any(node.lower for node in nodes):
        return Packing({}, tuple(nodes))
    lowest = min(known)
    return pack(demands, [without_lower(node, lowest) for node in nodes])


def _preempts(demand: RoleDemand) -> bool:
    return demand.spec.get("preemptionPolicy") != "Never"


def without_lower(node: RoomOfNode, priority: int) -> RoomOfNode:
    """Return a node without its pods of a lower priority."""
    gone = [amounts for its, amounts in node.lower if its < priority]
    return replace(node, free=total((node.free, *gone))) if gone else node


def _missing(demands: Sequence[RoleDemand], nodes: Sequence[RoomOfNode], found: Packing) -> Iterator[str]:
    """Yield for each role that lacks room how many of its pods are left and why: those first that have none alone."""
    alone = {demand.role: pack([demand], nodes).count for demand in demands}
    never = [demand for demand in demands if alone[demand.role] < demand.count]
    for demand in never or demands:
        room = min(alone[demand.role], found.placed.get(demand.role, 0))
        if room < demand.count:
            want = _want(demand, nodes)
            yield f"{_of(demand, room)}. {_not_offered(want, nodes) or _reasons(want, nodes)}"
    wanted, everywhere = total(demand.total for demand in demands), total(node.free for node in nodes)
    short = {name: amount - everywhere.get(name, 0) for name, amount in wanted.items()}
    if over := {name: amount for name, amount in short.items() if amount > 0}:
        yield f"all nodes together lack {listed(over)}"
    elif not never:
        yield "each role alone has room: there may be a way to place all of them that was not tried"


def _not_offered(want: _Want, nodes: Sequence[RoomOfNode]) -> str:
    """Return which resources no node has at all; empty if there are none."""
    absent = [name for name in want.requests if name != PODS and not any(name in node.free for node in nodes)]
    if not (absent and nodes):
        return ""
    return (
        f"No node of the cluster offers {' nor '.join(_by_weight(absent))}: it takes nodes that do, with their device "
        "plug-in, or another name of the resource"
    )


def _of(demand: RoleDemand, room: int) -> str:
    missing = demand.count - room
    asked = listed(times(demand.requests, missing))
    together = f", {'together ' if missing > 1 else ''}requesting {asked}" if asked else ""
    return f"{missing} of {_find(demand.role, demand.count, missing)} no node{together}"


def _reasons(want: _Want, nodes: Sequence[RoomOfNode]) -> str:
    """Return what the nodes are like: `Of 5 nodes: 2 with room, 3 with too little cpu (at most 500m free)`."""
    if not nodes:
        return "The cluster has no nodes"
    reasons: Counter[str] = Counter()
    largest: dict[str, int] = {}
    for node in nodes:
        reason = _excluded(want.demand, node) or _lacking(want.requests, node)
        if not reason:
            reason = WITH_ROOM if room_for(want.requests, want.ports, node) else PORT_TAKEN
        elif reason in node.free:
            largest[reason] = max(largest.get(reason, 0), node.free[reason])
        elif reason in want.requests:
            reason = f"without any {reason}"
        reasons[reason] += 1
    first = {WITH_ROOM: reasons.pop(WITH_ROOM)} if WITH_ROOM in reasons else {}
    listed = (*first.items(), *reasons.most_common(REASONS))
    rest = sum(count for _, count in reasons.most_common()[REASONS:])
    parts = [f"{count} {_reason(name, largest)}" for name, count in listed] + ([f"{rest} others"] if rest else [])
    return f"Of {_nodes(len(nodes))}: {', '.join(parts)}"


def _find(role: str, count: int, found: int) -> str:
    pods = f"{role} pod{'' if count == 1 else 's'}".strip()
    return f"{count} {pods} {'finds' if 1 in (count, found) else 'find'}"


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _reason(name: str, largest: Mapping[str, int]) -> str:
    if name not in largest:
        return name
    if name == PODS:
        return "with as many pods as it may have"
    return f"with too little {name} (at most {shown(name, largest[name])} free)"


def _lacking(requests: Amounts, node: RoomOfNode) -> str:
    """Return the resource of which a node has too little, devices first; empty if it has enough of all."""
    return next((name for name in _by_weight(requests) if node.free.get(name, 0) < requests[name]), "")


def _by_weight(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (LAST.index(name) + 1 if name in LAST else 0, name))

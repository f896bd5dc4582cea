"""Says of pods without a node whether they wait for room, or for a node that the cluster does not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from trainshed.api.coerce import as_mapping
from trainshed.api.job import ReplicaGroup
from trainshed.fit.amounts import shown
from trainshed.fit.demands import RoleDemand
from trainshed.fit.node_sizes import Largest, OnNodes, beyond_all, on_nodes, placed
from trainshed.fit.packing import RoomOfNode
from trainshed.plan.facts import Facts
from trainshed.plan.messages.phrases import enumeration, plural

from . import cluster_advice
from .replica_states import counted, short_of, unplaced_roles

#: The nodes, and the reasons of nodes, that a sentence names.
MOST_NODES, MOST_REASONS = 3, 4


class OfNodes(msgspec.Struct, frozen=True):
    """What the sizes of nodes say of the pods that wait, and what to do about that; all empty if they say nothing.

    `advice` is for pods that never have room. `room` is for those that wait for it, beside what else keeps them.
    """

    lines: tuple[str, ...] = ()
    advice: str = ""
    room: str = ""


def about(facts: Facts, nodes: Sequence[RoomOfNode]) -> OfNodes:
    """Return what nodes, as if they were empty, say of the pods of a job that have none; without nodes nothing."""
    if not nodes or not (waiting := unplaced_roles(facts)):
        return OfNodes()
    demands = [_demand(group) for group in facts.job.groups if group.count]
    if absent := [name for name in short_of(facts) if not any(name in node.free for node in nodes)]:
        return OfNodes(advice=cluster_advice.NOT_OFFERED.format(names=" nor ".join(absent)))
    alike = defaultdict[OnNodes, list[str]](list)
    for demand in demands:
        if demand.role in waiting:
            alike[on_nodes(demand, nodes)].append(demand.role)
    if never := {found: roles for found, roles in alike.items() if not found.fits}:
        is_kept = not any(found.usable for found in never)
        advice = cluster_advice.NO_SUCH_NODE if is_kept else cluster_advice.TOO_LARGE
        return OfNodes(tuple(_never(found, " and ".join(roles)) for found, roles in never.items()), advice)
    if lines := tuple(_together(demands, nodes)):
        return OfNodes(lines, cluster_advice.BEYOND_NODES)
    if not short_of(facts):  # it waits for something that is not counted here
        return OfNodes()
    lines = tuple(_full(found, " and ".join(roles)) for found, roles in alike.items())
    return OfNodes(lines, room=cluster_advice.FULL)


def _demand(group: ReplicaGroup) -> RoleDemand:
    return RoleDemand(group.role, ("",) * group.count, as_mapping(group.template.get("spec")))


def _never(found: OnNodes, roles: str) -> str:
    if found.largest:
        which = "a node that it may use" if found.kept else "a node"
        asked = " and ".join(f"{shown(one.resource, one.asked)} {one.resource}" for one in found.largest)
        text = f"each {roles} asks for {asked}; {which} has at most {' and '.join(map(_most, found.largest))}"
    elif found.usable:
        text = f"no single node has all that each {roles} asks for"
    else:
        text = f"no node of the cluster may run pods of {roles}"
    if not found.kept:
        return text
    reasons = [f"{plural(count, 'node')} {reason}" for reason, count in found.kept]
    return f"{text}; not to be used: {enumeration(reasons, MOST_REASONS)}"


def _most(one: Largest) -> str:
    return f"{shown(one.resource, one.most)} (on {one.node})" if one.most else "none"


def _together(demands: Sequence[RoleDemand], nodes: Sequence[RoomOfNode]) -> Iterator[str]:
    """Yield that the nodes do not take the whole job even if nothing else runs there."""
    for name, (asked, there) in beyond_all(demands, nodes).items():
        yield (
            f"the job asks for {shown(name, asked)} {name}, and all nodes that it may use have {shown(name, there)} "
            "together"
        )
        return
    if len(demands) == 1 and (room := placed(demands[0], nodes)) < demands[0].count:
        what = counted(demands[0].role, demands[0].count)
        yield f"the nodes take {room} of {demands[0].count} {what} at once, also when nothing else runs there"


def _full(found: OnNodes, roles: str) -> str:
    names = enumeration(found.fits, MOST_NODES)
    return f"each {roles} fits on {names}, which {'is' if len(found.fits) == 1 else 'are'} in use"

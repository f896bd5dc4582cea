"""Whether a queue of Kueue has quota for a job: the LocalQueue, its ClusterQueue, and the flavours of resources.

The rule is that of Kueue (pkg/scheduler/flavorassigner): the pods of a role get one flavour for each group of
resources, the first one that has enough of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_count, parse_text
from trainshed.api.job import Document

from .amounts import PODS, UNIT, Amounts, parsed, shown, thousandths
from .assessment import Assessment, Fit
from .demands import RoleDemand

PART = "Queue"
#: The stop policy of a queue that is not stopped.
NOT_STOPPED = ("", "None")
#: More than any quota.
ENDLESS = 1 << 80


class Flavor(msgspec.Struct, frozen=True):
    """A flavour in a ClusterQueue, for resources of one group: quotas, what may be borrowed, and what is used."""

    name: str
    nominal: Mapping[str, int]
    borrowing: Mapping[str, int]
    used: Mapping[str, int]


class ResourceGroup(msgspec.Struct, frozen=True):
    """The resources that have their flavours in common."""

    resources: tuple[str, ...]
    flavors: tuple[Flavor, ...]


def of_local(name: str, local: Document | None) -> Iterator[Assessment]:
    """Yield what the LocalQueue `name` says to a job; None is one that does not exist."""
    if local is None:
        yield Assessment(Fit.LACKING, PART, f"there is no LocalQueue {name}: the job would wait for it")
        return
    yield from _stopped(f"LocalQueue {name}", local)


def of_cluster(name: str, demands: Sequence[RoleDemand], cluster: Document | None) -> Iterator[Assessment]:
    """Yield what the ClusterQueue `name` says to a job; None is one that does not exist."""
    if cluster is None:
        yield Assessment(Fit.LACKING, PART, f"there is no ClusterQueue {name}, which the LocalQueue names")
        return
    yield from _stopped(f"ClusterQueue {name}", cluster)
    yield from _inactive(f"ClusterQueue {name}", cluster)
    yield from _quota(name, demands, cluster)
    yield from waiting_before(f"ClusterQueue {name}", cluster)


def waiting_before(name: str, queue: Document) -> Iterator[Assessment]:
    """Yield what is said about the Workloads that wait in a queue already, if there are any."""
    waiting = parse_count(as_mapping(queue.get("status")).get("pendingWorkloads"))
    if waiting:
        what = "1 Workload waits" if waiting == 1 else f"{waiting} Workloads wait"
        text = f"{what} in {name}, and those of the same or a higher priority come before"
        yield Assessment(Fit.WARNING, PART, text)


def cluster_queue_name(local: Document) -> str:
    """Return the name of the ClusterQueue of a LocalQueue."""
    return parse_text(as_mapping(local.get("spec")).get("clusterQueue"))


def _stopped(name: str, queue: Document) -> Iterator[Assessment]:
    policy = parse_text(as_mapping(queue.get("spec")).get("stopPolicy"))
    if policy not in NOT_STOPPED:
        yield Assessment(Fit.LACKING, PART, f"{name} is stopped ({policy}): no job of it is started")


def _inactive(name: str, queue: Document) -> Iterator[Assessment]:
    conditions = map(as_mapping, as_sequence(as_mapping(queue.get("status")).get("conditions")))
    active = next((item for item in conditions if item.get("type") == "Active"), {})
    if active.get("status") == "False":
        yield Assessment(Fit.LACKING, PART, f"{name} is not active: {parse_text(active.get('message'))}")


def groups(cluster: Document) -> list[ResourceGroup]:
    """Return the groups of resources of a ClusterQueue."""
    status = as_mapping(cluster.get("status"))
    usage = {
        parse_text(item.get("name")): _by_name(item, "total")
        for item in map(as_mapping, as_sequence(status.get("flavorsReservation") or status.get("flavorsUsage")))
    }
    return [
        ResourceGroup(
            tuple(map(parse_text, as_sequence(group.get("coveredResources")))),
            tuple(_flavor(item, usage) for item in map(as_mapping, as_sequence(group.get("flavors")))),
        )
        for group in map(as_mapping, as_sequence(as_mapping(cluster.get("spec")).get("resourceGroups")))
    ]


def _flavor(item: Document, usage: Mapping[str, Mapping[str, int]]) -> Flavor:
    name = parse_text(item.get("name"))
    return Flavor(name, _by_name(item, "nominalQuota"), _by_name(item, "borrowingLimit"), usage.get(name, {}))


def _by_name(item: Document, field: str) -> dict[str, int]:
    found = {
        parse_text(entry.get("name")): entry.get(field) for entry in map(as_mapping, as_sequence(item.get("resources")))
    }
    return parsed({name: value for name, value in found.items() if thousandths(_scalar(value)) is not None})


def _scalar(value: object) -> object:
    return value if isinstance(value, (str, int, float)) else None


def _quota(name: str, demands: Sequence[RoleDemand], cluster: Document) -> Iterator[Assessment]:
    found = groups(cluster)
    spec = as_mapping(cluster.get("spec"))
    cohort = parse_text(spec.get("cohortName") or spec.get("cohort"))
    covered = {resource for group in found for resource in group.resources}
    wanted = {demand.role: _wanted(demand, covered) for demand in demands if demand.count}
    if missing := sorted({resource for asked in wanted.values() for resource in asked} - covered):
        text = f"ClusterQueue {name} has no quota for {', '.join(missing)}: Kueue does not start the job"
        yield Assessment(Fit.LACKING, PART, text)
    taken: dict[str, dict[str, int]] = {}
    borrowed, short = set[str](), list[str]()
    for role, asked in wanted.items():
        for group in found:
            own = {resource: amount for resource, amount in asked.items() if resource in group.resources}
            if not own:
                continue
            flavor, borrows = _chosen(own, group, taken, is_cohort=bool(cohort))
            if flavor is None:
                short.append(_short(name, role, own, group))
                continue
            mine = taken.setdefault(flavor.name, {})
            for resource, amount in own.items():
                mine[resource] = mine.get(resource, 0) + amount
            borrowed |= {flavor.name} if borrows else set()
    yield from (Assessment(Fit.LACKING, PART, text) for text in short)
    if borrowed:
        text = f"ClusterQueue {name} must borrow {', '.join(sorted(borrowed))} from cohort {cohort}, if it has any left"
        yield Assessment(Fit.WARNING, PART, text)
    elif taken and not (short or missing):
        yield Assessment(Fit.OK, PART, f"ClusterQueue {name} has quota left: flavour {', '.join(sorted(taken))}")


def _wanted(demand: RoleDemand, covered: set[str]) -> dict[str, int]:
    pods = {PODS: demand.count * UNIT} if PODS in covered else {}
    return {name: amount for name, amount in demand.total.items() if amount} | pods


def _chosen(
    asked: Amounts, group: ResourceGroup, taken: Mapping[str, Amounts], *, is_cohort: bool
) -> tuple[Flavor | None, bool]:
    """Return the first flavour that has enough of all resources, and whether it must borrow for it."""
    for borrows in (False, True) if is_cohort else (False,):
        for flavor in group.flavors:
            mine = taken.get(flavor.name, {})
            if all(_has(flavor, name, amount + mine.get(name, 0), borrows=borrows) for name, amount in asked.items()):
                return flavor, borrows
    return None, False


def _has(flavor: Flavor, name: str, amount: int, *, borrows: bool) -> bool:
    more = flavor.borrowing.get(name, ENDLESS) if borrows else 0
    return flavor.used.get(name, 0) + amount <= flavor.nominal.get(name, 0) + more


def _short(name: str, role: str, asked: Amounts, group: ResourceGroup) -> str:
    """Return the figures of the flavour that lacks the least for the pods of a role."""
    lacks = [
        (
            flavor,
            {n: a for n, a in asked.items() if a + flavor.used.get(n, 0) > flavor.nominal.get(n, 0)},
        )
        for flavor in group.flavors
    ]
    text = f"ClusterQueue {name} has too little for {role}"
    for flavor, lacking in sorted(lacks, key=lambda item: len(item[1]))[:1]:
        resource = next(iter(lacking), next(iter(asked)))
        used, nominal = flavor.used.get(resource, 0), flavor.nominal.get(resource, 0)
        never = "" if asked[resource] <= nominal else ", so that it does not fit even when all else has ended"
        text += (
            f": {shown(resource, asked[resource])} {resource} are asked for, and of flavour {flavor.name} "
            f"{shown(resource, used)} of {shown(resource, nominal)} are used{never}"
        )
    return text

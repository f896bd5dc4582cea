"""A job's members placed together: its PodGroup, and whether its pods wait for it.

What a PodGroup says is v1's. Volcano is to let a group in before its pods are made. The coscheduling plugin counts the
pods that are there: pods that waited for it would wait for ever.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from trainshed.api import gang, quantity
from trainshed.api.dependent import VOLCANO_GROUPS, Dependent, Resource, Wish
from trainshed.api.job import Document, Job
from trainshed.api.pieces import mapping, sequence

from . import says
from .conditions import Word
from .facts import Facts

#: Volcano's queue of those who name none, and its phases of a group that it has not let in.
QUEUE = "default"
OUTSIDE = ("", "Pending")


def wishes(facts: Facts) -> tuple[Wish, ...]:
    """The job's PodGroup, if there is a gang scheduler and anybody to place."""
    job = facts.job
    kinds = gang.resources(facts.snapshot.site.gang_scheduler) if job.size else ()
    return tuple(Wish(kind, job.name, {"spec": _spec(facts, kind)}, annotations=job.annotations) for kind in kinds)


def waits(facts: Facts) -> Word | None:
    """Why the missing pods are not made yet, or None if they may be, or none is missing."""
    if not gang.is_volcano(facts.snapshot.site.gang_scheduler) or not facts.missing:
        return None
    group = _group(facts, VOLCANO_GROUPS)
    status = mapping(group.document.get("status")) if group and not group.deleting else {}
    phase = str(status.get("phase") or "")
    return says.waiting_for_group(facts, phase, _reason(status)) if phase in OUTSIDE else None


def _group(facts: Facts, kind: Resource) -> Dependent | None:
    name = facts.job.name
    return next((found for found in facts.snapshot.dependents if found.resource is kind and found.name == name), None)


def _reason(status: Document) -> str:
    """What Volcano itself says about a group: the last of its conditions that holds and is no good news."""
    told = [item for item in map(mapping, sequence(status.get("conditions"))) if item.get("status") == "True"]
    bad = [item for item in told if item.get("type") != "Scheduled"]
    words = (bad[-1].get("reason") or bad[-1].get("type"), bad[-1].get("message")) if bad else ()
    return ": ".join(str(word) for word in words if word)


def _spec(facts: Facts, kind: Resource) -> dict[str, Any]:
    job, asked = facts.job, facts.job.policy.scheduling
    least = job.size if asked.min_available is None else asked.min_available
    resources = _resources(job, least) if asked.min_resources is None else asked.min_resources
    if kind is VOLCANO_GROUPS:
        own: dict[str, Any] = {"queue": _queue(facts), "priorityClassName": asked.priority_class}
    else:
        own = {"scheduleTimeoutSeconds": asked.timeout}
    spec = {"minMember": least, "minResources": resources, **own}
    return {key: value for key, value in spec.items() if value not in (None, "", {})}


def _queue(facts: Facts) -> str:
    """The queue where the group stands already: it cannot be moved to another."""
    group = _group(facts, VOLCANO_GROUPS)
    there = mapping(group.document.get("spec")).get("queue") if group else None
    return str(there or facts.job.policy.scheduling.queue or QUEUE)


def _resources(job: Job, least: int) -> dict[str, str]:
    """What the first `least` members need, roles in the order they were declared."""
    amounts: defaultdict[str, list[tuple[object, int]]] = defaultdict(list)
    for group in job.replicas:
        counted = min(group.count, least)
        least -= counted
        containers = sequence(mapping(group.template.get("spec")).get("containers")) if counted else ()
        for container in containers:
            for name, amount in _needs(mapping(container)).items():
                amounts[name].append((amount, counted))
    return {name: quantity.total(found) for name, found in amounts.items()}


def _needs(container: Document) -> Document:
    """What a container requests; if it requests nothing, its limits are what it gets."""
    asked = mapping(container.get("resources"))
    return mapping(asked.get("requests")) or mapping(asked.get("limits"))

"""Gang scheduling: the PodGroup of a job, and whether pod creation waits for it.

The content of a PodGroup is v1's. Volcano admits a group before its pods are created. The coscheduling plugin counts
existing pods, so pods that were created only after its admission would never be created.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from trainshed.api import framework
from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.job import Document, Job
from trainshed.api.objects import VOLCANO_GROUPS, Dependent, DesiredDependent, Resource

from . import dependents, says
from .conditions import Word
from .facts import Facts

#: Volcano's default queue, and the phases of a PodGroup that it has not admitted.
QUEUE = "default"
OUTSIDE = ("", "Pending")


def wishes(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return the PodGroup of the job, if there is a gang scheduler and the job has replicas."""
    job = facts.job
    kinds = framework.gang_resources(facts.snapshot.site.gang_scheduler) if job.size else ()
    return tuple(
        DesiredDependent(kind, job.name, {"spec": _spec(facts, kind)}, annotations=job.annotations) for kind in kinds
    )


def waits(facts: Facts) -> Word | None:
    """Return the condition Blocked while the missing pods wait for Volcano, or None."""
    if not framework.is_volcano(facts.snapshot.site.gang_scheduler) or not facts.missing:
        return None
    group = _group(facts, VOLCANO_GROUPS)
    status = as_mapping(group.document.get("status")) if group and not group.deleting else {}
    phase = str(status.get("phase") or "")
    return says.waiting_for_group(facts, phase, _reason(status)) if phase in OUTSIDE else None


def _group(facts: Facts, kind: Resource) -> Dependent | None:
    name = facts.job.name
    return next((found for found in facts.snapshot.dependents if found.resource is kind and found.name == name), None)


def _reason(status: Document) -> str:
    """Return Volcano's reason and message: those of the last true condition other than Scheduled."""
    true = [item for item in map(as_mapping, as_sequence(status.get("conditions"))) if item.get("status") == "True"]
    bad = [item for item in true if item.get("type") != "Scheduled"]
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
    """Return the queue of the existing PodGroup, which cannot be moved, or else the requested one."""
    group = _group(facts, VOLCANO_GROUPS)
    there = as_mapping(group.document.get("spec")).get("queue") if group else None
    return str(there or facts.job.policy.scheduling.queue or QUEUE)


def _resources(job: Job, least: int) -> dict[str, str]:
    """Return the sum of the requests of the first `least` replicas, roles in the order of the spec."""
    amounts: defaultdict[str, list[tuple[object, int]]] = defaultdict(list)
    for group in job.replicas:
        counted = min(group.count, least)
        least -= counted
        containers = as_sequence(as_mapping(group.template.get("spec")).get("containers")) if counted else ()
        for container in containers:
            for name, amount in _needs(as_mapping(container)).items():
                amounts[name].append((amount, counted))
    return {name: dependents.sum_quantities(found) for name, found in amounts.items()}


def _needs(container: Document) -> Document:
    """Return the requests of a container, or its limits if it has no requests."""
    asked = as_mapping(container.get("resources"))
    return as_mapping(asked.get("requests")) or as_mapping(asked.get("limits"))

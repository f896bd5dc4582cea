"""The PodGroup of a job: its content, and whether the job's pods must wait for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from trainshed.api import gang
from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.job import Document, Job
from trainshed.api.objects import VOLCANO_GROUPS, Dependent, DesiredDependent, Resource

from .facts import Facts
from .quantities import sum_quantities

#: Volcano's default queue, and the phases of a PodGroup that it has not admitted.
DEFAULT_QUEUE = "default"
NOT_ADMITTED_PHASES = ("", "Pending")


def desired(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return the PodGroup of the job, if there is a gang scheduler and the job has replicas."""
    job = facts.job
    kinds = gang.resources(facts.snapshot.job_defaults.gang_scheduler) if job.size else ()
    return tuple(
        DesiredDependent(kind, job.name, {"spec": _spec(facts, kind)}, annotations=job.annotations) for kind in kinds
    )


@dataclass(frozen=True, slots=True)
class Wait:
    """The phase of a PodGroup that Volcano has not admitted ("": none yet), and Volcano's reason, if it gives one."""

    phase: str
    reason: str


def wait(facts: Facts) -> Wait | None:
    """Return the phase of the PodGroup and Volcano's reason while missing pods wait for it, or None."""
    if not gang.is_volcano(facts.snapshot.job_defaults.gang_scheduler) or not facts.missing:
        return None
    group = _group(facts, VOLCANO_GROUPS)
    status = as_mapping(group.document.get("status")) if group and not group.deleting else {}
    phase = str(status.get("phase") or "")
    return Wait(phase, _volcano_reason(status)) if phase in NOT_ADMITTED_PHASES else None


def _group(facts: Facts, kind: Resource) -> Dependent | None:
    name = facts.job.name
    return next((found for found in facts.snapshot.dependents if found.resource is kind and found.name == name), None)


def _volcano_reason(status: Document) -> str:
    """Return Volcano's reason and message: those of the last true condition other than Scheduled."""
    true = [item for item in map(as_mapping, as_sequence(status.get("conditions"))) if item.get("status") == "True"]
    bad = [item for item in true if item.get("type") != "Scheduled"]
    words = (bad[-1].get("reason") or bad[-1].get("type"), bad[-1].get("message")) if bad else ()
    return ": ".join(str(word) for word in words if word)


def _spec(facts: Facts, kind: Resource) -> dict[str, Any]:
    job, scheduling = facts.job, facts.job.policy.scheduling
    min_available = job.size if scheduling.min_available is None else scheduling.min_available
    if kind is not VOLCANO_GROUPS:
        min_available = max(1, min_available)  # a PodGroup without a minimum is invalid; a minimum of 1 means the same
    resources = _resources(job, min_available) if scheduling.min_resources is None else scheduling.min_resources
    if kind is VOLCANO_GROUPS:
        own: dict[str, Any] = {"queue": _queue(facts), "priorityClassName": scheduling.priority_class}
    else:
        own = {"scheduleTimeoutSeconds": scheduling.timeout}
    spec = {"minMember": min_available, "minResources": resources, **own}
    return {key: value for key, value in spec.items() if value not in (None, "", {})}


def _queue(facts: Facts) -> str:
    """Return the queue of the existing PodGroup, which cannot be moved, or else the requested one."""
    group = _group(facts, VOLCANO_GROUPS)
    there = as_mapping(group.document.get("spec")).get("queue") if group else None
    return str(there or facts.job.policy.scheduling.queue or DEFAULT_QUEUE)


def _resources(job: Job, min_available: int) -> dict[str, str]:
    """Return the sum of the requests of the first `min_available` replicas, roles in the order of the spec."""
    amounts: defaultdict[str, list[tuple[object, int]]] = defaultdict(list)
    for group in job.groups:
        counted = min(group.count, min_available)
        min_available -= counted
        containers = as_sequence(as_mapping(group.template.get("spec")).get("containers")) if counted else ()
        for container in containers:
            for name, amount in _requests(as_mapping(container)).items():
                amounts[name].append((amount, counted))
    return {name: sum_quantities(found) for name, found in amounts.items()}


def _requests(container: Document) -> Document:
    """Return the requests of a container, or its limits if it has no requests."""
    resources = as_mapping(container.get("resources"))
    return as_mapping(resources.get("requests")) or as_mapping(resources.get("limits"))

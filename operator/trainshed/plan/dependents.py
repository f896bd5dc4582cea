"""Creates, updates and deletes the other objects of a job: ConfigMaps, RBAC, autoscalers, PodGroups."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import Any

from trainshed.api import framework
from trainshed.api.actions import Action, CreateDependent, DeleteDependent, UpdateDependent
from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.framework import Framework, job_labels
from trainshed.api.job import Document, Job
from trainshed.api.objects import VOLCANO_GROUPS, Dependent, DesiredDependent, Phase, Resource

from . import builders
from .facts import Facts

#: An annotation: a digest of the content written last, so that fields that are no longer desired are noticed, too.
LAST_APPLIED_HASH = "trainshed.dev/last-applied-hash"


def desired(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return all objects that the job should own while it has pods."""
    own = facts.framework.hooks.dependents(facts.job, facts.snapshot.job_defaults, _running(facts))
    return (*desired_pod_groups(facts), *own)


def apply(facts: Facts) -> tuple[Action, ...]:
    """Create missing objects, update changed ones, and delete temporary ones that are no longer desired."""
    there = {(dependent.resource, dependent.name): dependent for dependent in facts.snapshot.dependents}
    wanted = desired(facts)
    names = {(target.resource, target.name) for target in wanted}
    made = (_create_or_update(facts, target, there.get((target.resource, target.name))) for target in wanted)
    unwanted = (dependent for key, dependent in there.items() if key not in names and dependent.resource.temporary)
    return (*(action for action in made if action), *_delete(unwanted))


def prune(facts: Facts) -> tuple[Action, ...]:
    """Delete temporary objects: the job has no pods any more, or soon will not."""
    return _delete(dependent for dependent in facts.snapshot.dependents if dependent.resource.temporary)


def _create_or_update(facts: Facts, target: DesiredDependent, found: Dependent | None) -> Action | None:
    if found is None:
        if target.shared and not facts.missing:
            return None  # may belong to another owner; its existence is checked when pods are created
        return CreateDependent(target.resource, target.name, body(facts.framework, facts.job, target), target.shared)
    if found.deleting or not _differs(facts, target, found):
        return None
    return UpdateDependent(target.resource, target.name, _patch(facts, target, found))


def body(framework: Framework, job: Job, target: DesiredDependent) -> dict[str, Any]:
    """Return the body of a dependent for its creation."""
    metadata = _dependent_metadata(framework, job, target) | {
        "name": target.name,
        "ownerReferences": [builders.owner_reference(job)],
    }
    head = {"apiVersion": target.resource.api_version, "kind": target.resource.kind}
    return {**head, "metadata": metadata, **target.content}


def _dependent_metadata(framework: Framework, job: Job, target: DesiredDependent) -> dict[str, Any]:
    labels = dict(target.labels) | job_labels(framework, job)
    return {"labels": labels, "annotations": dict(target.annotations) | {LAST_APPLIED_HASH: _hash(target)}}


def _hash(target: DesiredDependent) -> str:
    text = json.dumps((target.content, target.labels, target.annotations), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differs(facts: Facts, target: DesiredDependent, found: Dependent) -> bool:
    wanted = {"metadata": _dependent_metadata(facts.framework, facts.job, target), **target.content}
    return not covers(found.document, wanted)


def covers(actual: object, wanted: object) -> bool:
    """Return whether an object has all desired fields, with quantities in any notation and defaults added.

    The server may leave out fields that are empty, zero or false.
    """
    if actual is None:
        return not wanted
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(covers(actual.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same_length = isinstance(actual, list) and len(actual) == len(wanted)
        return same_length and all(map(covers, actual, wanted))  # type: ignore[call-overload]
    amount = parse_quantity(wanted)
    return actual == wanted or (amount is not None and amount == parse_quantity(actual))


def _patch(facts: Facts, target: DesiredDependent, found: Dependent) -> dict[str, Any]:
    content = {key: _merged(found.document.get(key), value) for key, value in target.content.items()}
    identity = {"uid": found.uid, "resourceVersion": found.version}
    return {"metadata": _dependent_metadata(facts.framework, facts.job, target) | identity, **content}


def _merged(actual: object, wanted: object) -> object:
    """Return the merge patch; fields that exist and are not desired are removed by null."""
    if not (isinstance(actual, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    kept = {key: _merged(actual.get(key), value) for key, value in wanted.items()}
    return dict.fromkeys(actual.keys() - wanted.keys()) | kept


def _delete(dependents: Iterable[Dependent]) -> tuple[DeleteDependent, ...]:
    return tuple(
        DeleteDependent(dependent.resource, dependent.name, dependent.uid)
        for dependent in dependents
        if not dependent.deleting
    )


def _running(facts: Facts) -> tuple[str, ...]:
    """Return the names of the running pods of the current attempt."""
    found = (pod for pod in facts.current.values() if pod.phase is Phase.RUNNING and not pod.deleting)
    return tuple(sorted(pod.name for pod in found))


BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
SMALL = {suffix: Decimal(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), 1)}
LARGE = {suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)}
FACTORS = {**BINARY, **SMALL, "": Decimal(1), **LARGE}
MAX_AMOUNT, SMALLEST_UNIT = Decimal(2**63 - 1), SMALL["n"]
NUMBER = r"([+-]?\d{1,30}(?:\.\d{0,30})?|[+-]?\.\d{1,30})"
FORM = re.compile(NUMBER + r"(?:([eE][+-]?\d{1,2})|([KMGTPE]i|[munkMGTPE])?)", re.ASCII)


def parse_quantity(text: object) -> Decimal | None:
    """Parse a quantity; return None if it is not one."""
    found = FORM.fullmatch(str(text)) if isinstance(text, (str, int, float)) and not isinstance(text, bool) else None
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return Decimal(number + (exponent or "")) * FACTORS[suffix or ""]


def sum_quantities(amounts: Iterable[tuple[object, int]]) -> str:
    """Return the sum of (quantity, factor) pairs, in the suffix family of the first; invalid quantities are skipped."""
    known = [(str(text), amount * times) for text, times in amounts if (amount := parse_quantity(text)) is not None]
    first = known[0][0] if known else ""
    return format_quantity(sum((amount for _, amount in known), Decimal(0)), binary=first.endswith("i"))


def format_quantity(amount: Decimal, *, binary: bool = False) -> str:
    """Return the canonical form: the largest suffix that leaves a whole number."""
    kept = max(-MAX_AMOUNT, min(MAX_AMOUNT, amount)).quantize(SMALLEST_UNIT, ROUND_UP)
    if not kept:
        return "0"
    family = BINARY if binary and abs(kept) >= BINARY["Ki"] else LARGE
    suffixes = (*reversed(family.items()), ("", Decimal(1)), *SMALL.items())
    suffix, factor = next((suffix, factor) for suffix, factor in suffixes if kept % factor == 0)
    return f"{kept / factor:.0f}{suffix}"


#: Volcano's default queue, and the phases of a PodGroup that it has not admitted.
DEFAULT_QUEUE = "default"
NOT_ADMITTED_PHASES = ("", "Pending")


def desired_pod_groups(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return the PodGroup of the job, if there is a gang scheduler and the job has replicas."""
    job = facts.job
    kinds = framework.gang_resources(facts.snapshot.job_defaults.gang_scheduler) if job.size else ()
    return tuple(
        DesiredDependent(kind, job.name, {"spec": _pod_group_spec(facts, kind)}, annotations=job.annotations)
        for kind in kinds
    )


@dataclass(frozen=True, slots=True)
class PodGroupWait:
    """The phase of a PodGroup that Volcano has not admitted ("": none yet), and Volcano's reason, if it gives one."""

    phase: str
    reason: str


def pod_group_wait(facts: Facts) -> PodGroupWait | None:
    """Return the phase of the PodGroup and Volcano's reason while missing pods wait for it, or None."""
    if not framework.is_volcano(facts.snapshot.job_defaults.gang_scheduler) or not facts.missing:
        return None
    group = _group(facts, VOLCANO_GROUPS)
    status = as_mapping(group.document.get("status")) if group and not group.deleting else {}
    phase = str(status.get("phase") or "")
    return PodGroupWait(phase, _volcano_reason(status)) if phase in NOT_ADMITTED_PHASES else None


def _group(facts: Facts, kind: Resource) -> Dependent | None:
    name = facts.job.name
    return next((found for found in facts.snapshot.dependents if found.resource is kind and found.name == name), None)


def _volcano_reason(status: Document) -> str:
    """Return Volcano's reason and message: those of the last true condition other than Scheduled."""
    true = [item for item in map(as_mapping, as_sequence(status.get("conditions"))) if item.get("status") == "True"]
    bad = [item for item in true if item.get("type") != "Scheduled"]
    words = (bad[-1].get("reason") or bad[-1].get("type"), bad[-1].get("message")) if bad else ()
    return ": ".join(str(word) for word in words if word)


def _pod_group_spec(facts: Facts, kind: Resource) -> dict[str, Any]:
    job, scheduling = facts.job, facts.job.policy.scheduling
    min_available = job.size if scheduling.min_available is None else scheduling.min_available
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

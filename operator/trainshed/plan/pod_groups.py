"""The PodGroup of a job: its content, and whether the job's pods must wait for it."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from trainshed.api import coerce, gang
from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.job import Document, Job
from trainshed.api.objects import (
    KUBERNETES_GROUPS_ALPHA,
    VOLCANO_GROUPS,
    Dependent,
    DesiredDependent,
    Resource,
)
from trainshed.api.quantities import requests, sum_quantities
from trainshed.api.status import MAX_MESSAGE_BYTES, ConditionType

from .conditions import ConditionUpdate
from .facts import Facts
from .messages import gang_scheduling

#: Volcano's default queue, and the phases of a PodGroup that it has not admitted.
DEFAULT_QUEUE = "default"
NOT_ADMITTED_PHASES = ("", "Pending")
#: While the API server does not serve PodGroups, a job looks again after this time.
UNSERVED_INTERVAL = timedelta(seconds=30)
#: The Events about a PodGroup are read after this time, and at least this often.
FIRST_READ, LONGEST_PAUSE = timedelta(seconds=30), timedelta(minutes=10)
#: The number of resources whose requests are summed; `minResources` of a job may have as many (`api/spec.py`).
MAX_RESOURCES = 256
#: The beginning of Volcano's message about a PodGroup without pods, and the length of messages that are kept.
NO_TASKS, MAX_EVENT_BYTES = "0/0 tasks in gang", 512
#: The fields of a pod's spec in which Kubernetes' scheduler accepts no differences within a group, with their defaults,
#: and the reason of the condition Blocked if there are differences.
UNIFORM_FIELDS = (
    ("priorityClassName", "", "DifferentPriorities"),
    ("preemptionPolicy", "", "DifferentPriorities"),
    ("schedulerName", "default-scheduler", "DifferentSchedulers"),
)


def desired(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return the PodGroup of the job, if there is a gang scheduler and the job has replicas."""
    job, scheduler = facts.job, facts.snapshot.job_defaults.gang_scheduler
    if not job.size:
        return ()
    if gang.is_kubernetes(scheduler):
        return _kubernetes_group(facts)
    return tuple(
        DesiredDependent(kind, job.name, {"spec": _spec(facts, kind)}, annotations=tuple(job.annotations.items()))
        for kind in gang.resources(scheduler)
    )


def wait(facts: Facts) -> ConditionUpdate | None:
    """Return the condition Blocked while missing pods must wait for the PodGroup, or None."""
    scheduler = facts.snapshot.job_defaults.gang_scheduler
    if not scheduler or not facts.missing:
        return None
    if gang.is_kubernetes(scheduler):
        return _kubernetes_wait(facts)
    return _volcano_wait(facts) if gang.is_volcano(scheduler) else None


def next_check(facts: Facts) -> datetime | None:
    """Return when `wait` may change though nothing that is watched does, or None."""
    if _is_unserved(facts) and facts.missing:
        return facts.now + UNSERVED_INTERVAL
    return _events_due(facts)


def events_to_read(facts: Facts) -> str:
    """Return the uid of the PodGroup whose Events are to be read now, because only they may say why it waits; or ""."""
    due, group = _events_due(facts), _group(facts)
    return group.uid if due and group and due <= facts.now else ""


def latest_message(before: tuple[str, str], event: Document) -> tuple[str, str]:
    """Return the time and the message of this Event about a PodGroup, or those of an earlier read one if it is later.

    Volcano also writes an Event that counts the pods that it cannot place, which says nothing while there are none.
    """
    message, time = str(event.get("message") or ""), _event_time(event)
    if message.startswith(NO_TASKS) or (before[1] and time <= before[0]):
        return before
    return time, coerce.truncate_end(" ".join(message.split()), MAX_EVENT_BYTES)


def _event_time(event: Document) -> str:
    series = as_mapping(event.get("series"))
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def _events_due(facts: Facts) -> datetime | None:
    """Return when the Events about a PodGroup are to be read that Volcano has not admitted and says nothing about.

    That is after `FIRST_READ`, and from then on each time that the job has waited twice as long, but at least every
    `LONGEST_PAUSE`: so the number of reads is small also for many jobs that wait for long.
    """
    since = _waiting_since(facts)
    if since is None:
        return None
    read = facts.snapshot.scheduler_message.read if facts.snapshot.scheduler_message else None
    if read is None or read < since:
        return since + FIRST_READ
    return read + max(FIRST_READ, min(read - since, LONGEST_PAUSE))


def _waiting_since(facts: Facts) -> datetime | None:
    """Return since when the job has waited for Volcano, which gives no reason in the PodGroup; None if it does not."""
    known, group = facts.status.condition(ConditionType.BLOCKED), _group(facts)
    is_volcano = gang.is_volcano(facts.snapshot.job_defaults.gang_scheduler)
    if not (is_volcano and known and known.reason == gang.WAITING_FOR_POD_GROUP and group and wait(facts)):
        return None
    return None if _volcano_reason(as_mapping(group.document.get("status"))) else known.changed


def _kubernetes_group(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return the PodGroup of Kubernetes, unless the templates name PodGroups of their own, or it must wait."""
    kind, job = _kind(facts), facts.job
    if kind is None or gang.has_own_groups(job):
        return ()
    group = _group(facts)
    if (_difference(job) and group is None) or _is_outdated(facts, group):
        return ()
    count = {"schedulingPolicy": {"gang": {"minCount": _min_count(facts, group)}}}
    is_alpha = kind is KUBERNETES_GROUPS_ALPHA
    first: dict[str, Any] = {"disruptionMode": "PodGroup" if is_alpha else {"all": {}}}
    if name := _priority_class(job):
        first["priorityClassName"] = name
    content = {} if is_alpha else {"spec": count}  # v1alpha2 does not allow to change the number
    return (
        DesiredDependent(
            kind,
            job.name,
            content,
            annotations=tuple(job.annotations.items()),
            first_spec=count | first if is_alpha else first,
        ),
    )


def _kubernetes_wait(facts: Facts) -> ConditionUpdate | None:
    job = facts.job
    if gang.has_own_groups(job):
        return None
    if _is_unserved(facts):
        message = gang_scheduling.not_served(kind.api_version for kind in gang.OPTIONAL)
        return ConditionUpdate(ConditionType.BLOCKED, "PodGroupNotServed", message)
    if found := _difference(job):
        return found
    group = _group(facts)
    if group and (group.deleting or _is_outdated(facts, group)):
        return _waiting(gang_scheduling.being_deleted(job.name))
    return None


def _kind(facts: Facts) -> Resource | None:
    """Return the kind of PodGroup that the API server serves, the newest first; None if it serves none."""
    kinds = gang.resources(facts.snapshot.job_defaults.gang_scheduler)
    return next((kind for kind in kinds if kind not in facts.snapshot.unserved), None)


def _is_unserved(facts: Facts) -> bool:
    return gang.is_kubernetes(facts.snapshot.job_defaults.gang_scheduler) and _kind(facts) is None


def _pod_spec(template: Document) -> Document:
    return as_mapping(template.get("spec"))


def _min_count(facts: Facts, group: Dependent | None) -> int:
    """Return the number of pods that must fit together: at least 1, at most the replicas that have not succeeded.

    The scheduler does not count pods that have ended: with all replicas as the minimum, the replacement of one pod
    would never be scheduled after another one has succeeded. While all pods have a node the number stays as it is.
    """
    job, asked = facts.job, facts.job.policy.scheduling.min_available
    wanted = max(1, job.size if asked is None else min(asked, job.size))
    needed = max(1, min(wanted, job.size - sum(map(len, facts.done.values()))))
    if facts.missing or any(not pod.node for pod in facts.current.values()):
        return needed
    policy = as_mapping(as_mapping(group.document.get("spec")).get("schedulingPolicy")) if group else {}
    count = as_mapping(policy.get("gang")).get("minCount")
    return count if isinstance(count, int) and needed <= count <= wanted else wanted


def _priority_class(job: Job) -> str:
    """Return the priority class of the PodGroup: that of the policy, or else of the pods, which have all the same."""
    templates = (_pod_spec(group.template).get("priorityClassName") for group in job.groups if group.count)
    return job.policy.scheduling.priority_class or str(next(templates, "") or "")


def _is_outdated(facts: Facts, group: Dependent | None) -> bool:
    """Return whether the PodGroup has another priority class than the job, and no pod needs it any more."""
    if group is None or facts.snapshot.pods:
        return False
    found, wanted = as_mapping(group.document.get("spec")).get("priorityClassName"), _priority_class(facts.job)
    return bool(found and wanted and found != wanted)


def _difference(job: Job) -> ConditionUpdate | None:
    """Return the condition Blocked if pods differ in a field that must be the same in the whole PodGroup."""
    asked = job.policy.scheduling.priority_class
    for field, default, reason in UNIFORM_FIELDS:
        policy = asked if field == "priorityClassName" else ""
        values = {"schedulingPolicy": policy} if policy else {}
        for group in job.groups:
            if group.count:
                values[group.role] = str(_pod_spec(group.template).get(field) or policy or default)
        if len(set(values.values())) > 1:
            message = gang_scheduling.different(field, values)
            return ConditionUpdate(ConditionType.BLOCKED, reason, coerce.truncate_end(message, MAX_MESSAGE_BYTES))
    return None


def _volcano_wait(facts: Facts) -> ConditionUpdate | None:
    group = _group(facts)
    status = as_mapping(group.document.get("status")) if group and not group.deleting else {}
    phase = str(status.get("phase") or "")
    if phase not in NOT_ADMITTED_PHASES:
        return None
    said = facts.snapshot.scheduler_message
    why = _volcano_reason(status) or (said.text if said and group else "")
    return _waiting(gang_scheduling.not_admitted(facts.job.name, phase, why))


def _waiting(message: str) -> ConditionUpdate:
    text = coerce.truncate_end(message, MAX_MESSAGE_BYTES)
    return ConditionUpdate(ConditionType.BLOCKED, gang.WAITING_FOR_POD_GROUP, text)


def _group(facts: Facts) -> Dependent | None:
    """Return the PodGroup of the job, if it exists."""
    name, kinds = facts.job.name, gang.resources(facts.snapshot.job_defaults.gang_scheduler)
    groups = (found for found in facts.snapshot.dependents if found.resource in kinds and found.name == name)
    return next(groups, None)


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
    group = _group(facts)
    there = as_mapping(group.document.get("spec")).get("queue") if group else None
    return str(there or facts.job.policy.scheduling.queue or DEFAULT_QUEUE)


def _resources(job: Job, min_available: int) -> dict[str, str]:
    """Return the sum of the requests of the first `min_available` replicas, roles in the order of the spec.

    A template may name tens of thousands of resources, which take a second; only the first MAX_RESOURCES count.
    """
    amounts: defaultdict[str, list[tuple[object, int]]] = defaultdict(list)
    for group in job.groups:
        counted = min(group.count, min_available)
        min_available -= counted
        containers = as_sequence(_pod_spec(group.template).get("containers")) if counted else ()
        for container in containers:
            for name, amount in requests(as_mapping(container)).items():
                if name in amounts or len(amounts) < MAX_RESOURCES:
                    amounts[name].append((amount, counted))
    return {name: sum_quantities(found) for name, found in amounts.items()}

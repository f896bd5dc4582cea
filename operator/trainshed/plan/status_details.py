"""What changes in a status while its conditions stay: progress, changes of the pod template, counts after a failure."""

from __future__ import annotations

from msgspec.structs import replace

from trainshed.api.actions import Event, EventType
from trainshed.api.indexes import Indexes
from trainshed.api.status import MAX_SHORT_NAME_BYTES, ConditionType, ReplicaStatus, Status

from . import conditions, start_order
from .facts import Facts

#: From this number of missing pods on, their creation takes so long that the status shows the progress.
MANY = 200


def with_progress(facts: Facts, status: Status, plain: str) -> Status:
    """Return the status with the pods that are not created yet after the `plain` message of Created.

    These are replicas that wait for others, and the number of created pods while many are missing.
    """
    size, missing = facts.job.size, len(facts.missing)
    count = f"{size - missing} of {size} pods created" if missing >= MANY else ""
    progress = " ".join(filter(None, (start_order.sentence(facts), count)))
    return _with_addition(facts, status, ConditionType.CREATED, plain, progress)


def with_outdated_pods(facts: Facts, status: Status, plain: str) -> Status:
    """Return the status with the pods of an older template after the `plain` message of Running, while it is true."""
    if not status.true(ConditionType.RUNNING):
        return status
    return _with_addition(facts, status, ConditionType.RUNNING, plain, facts.once(outdated_pods))


def _with_addition(facts: Facts, status: Status, kind: ConditionType, plain: str, addition: str) -> Status:
    """Return the status with the addition after the `plain` message of a condition, or without an earlier one."""
    known = status.condition(kind)
    if addition:
        return conditions.set_message(status, kind, f"{plain} {addition}", facts.now)
    added = known is not None and known.message.startswith(f"{plain} ")
    return conditions.set_message(status, kind, plain, facts.now) if added else status


def outdated_pods(facts: Facts) -> str:
    """Return which replicas have pods of an older pod template, in one sentence; "" if none has."""
    found: dict[str, list[int]] = {}
    hashes = {group.role: group.template_hash for group in facts.job.groups}
    for replica, pod in facts.current.items():
        if pod.template_hash and pod.template_hash != hashes[replica.role] and not pod.over:
            found.setdefault(replica.role.lower(), []).append(replica.index)
    names = ", ".join(f"{role}-{Indexes.of(indexes).abridged(MAX_SHORT_NAME_BYTES)}" for role, indexes in found.items())
    return (
        f"The pod template was changed; until their next restart these pods have the old one: {names}." if names else ""
    )


def template_changed(facts: Facts) -> tuple[Event, ...]:
    """Return an Event about the pods of an older template, once for each new template."""
    message = facts.once(outdated_pods)
    key = "/".join(("PodTemplateChanged", *(group.template_hash for group in facts.job.groups)))
    return (Event(EventType.NORMAL, "PodTemplateChanged", message, key=key),) if message else ()


def counts_after_failure(facts: Facts) -> Status:
    """Return the stored status with the active and ready pods of now; of a job that succeeded, the stored status.

    How many replicas had failed or succeeded when the job failed is its result, and stays. So does the whole status
    while the spec is invalid: it does not tell which pods are replicas.
    """
    if not facts.status.true(ConditionType.FAILED) or facts.job.problems:
        return facts.status
    counts = {
        role: _counts(stored, facts.replica_statuses.get(role, ReplicaStatus()))
        for role, stored in facts.status.replica_statuses.items()
    }
    return replace(facts.status, replica_statuses=counts)


def _counts(stored: ReplicaStatus, observed: ReplicaStatus) -> ReplicaStatus:
    return replace(stored, active=observed.active, ready=observed.ready)

"""Converts a Status to its document, a document to a Status, and two statuses to a merge patch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from . import training
from .coerce import (
    as_mapping,
    as_sequence,
    encodable,
    fitted,
    format_time,
    int32,
    json_size,
    parse_count,
    parse_text,
    parse_time,
    text_of,
    truncate_end,
    without_empty,
)
from .failure_codec import failure_document, parse_failure, parse_restart, restart_document
from .gang import WAITING_FOR_POD_GROUP
from .indexes import Indexes
from .job import Document, Job
from .kueue_groups import WORKLOAD
from .patches import difference
from .status import (
    EXTRA,
    LIMITS,
    MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES,
    MAX_RECENT_RESTARTS,
    MAX_SHORT_NAME_BYTES,
    MAX_STRAGGLERS,
    MAX_WAITING,
    MAX_WAITING_MESSAGE_BYTES,
    OWN_FIELDS,
    TERMINAL,
    Condition,
    ConditionType,
    ReplicaStatus,
    Retries,
    Status,
    Straggler,
    Waiting,
)
from .status_schema import STATUS
from .time_codec import parse_time_spent, time_document

#: The largest size of a status in bytes of JSON, and the part of it that is reserved for what `status_patch` adds.
MAX_STATUS_BYTES, COLUMN_BYTES = 16_000, 144
#: Statuses whose documents are kept: those of the writes in flight. One write compares and encodes two statuses four
#: times, which was a tenth of the processor time of a small job.
KEPT_DOCUMENTS = 64
_kept: dict[int, tuple[Status, dict[str, Any]]] = {}


def status_document(status: Status) -> dict[str, Any]:
    """Return the status as the API server stores it; zero and empty values are left out.

    Long messages and names are truncated. The completed indexes may take the bytes that the other fields leave. The
    result always matches the schema of the CRD, and is shared: a caller that changes it copies it first.
    """
    known = _kept.get(id(status))  # the object is kept with its document, so that no other one gets its id
    if known is None:
        known = _kept[id(status)] = status, _document(status)
        if len(_kept) > KEPT_DOCUMENTS:
            del _kept[next(iter(_kept))]
    return known[1]


def _document(status: Status) -> dict[str, Any]:
    retries = status.retries
    replica_statuses = {encodable(role): replica_status for role, replica_status in status.replica_statuses.items()}
    retry = {
        "consecutiveFailures": retries.consecutive_failures,
        "nextRetryTime": _time(retries.next_retry_time),
        "containerRestarts": retries.container_restarts,
        "deletedPodContainerRestarts": retries.deleted_pod_container_restarts,
    }
    whole = {
        "conditions": [_condition_document(item) for item in status.conditions if item.type not in EXTRA],
        **{field: _extra_document(status.condition(kind)) for kind, field in OWN_FIELDS.items()},
        "ending": _extra_document(status.ending, ("type",)),
        "replicaStatuses": {
            role: _replica_status_document(replica_status) for role, replica_status in replica_statuses.items()
        },
        "startTime": _time(status.start),
        "completionTime": _time(status.completion),
        "lastReconcileTime": _time(_waiting_since(status)),
        "state": status.state,
        "reason": truncate_end(status.reason, MAX_NAME_BYTES),
        "waiting": [_waiting_document(waiting) for waiting in status.waiting[:MAX_WAITING]],
        "attempts": dict(status.attempts),
        "restarts": retries.used,
        "retry": without_empty(retry),
        "podsPendingReplacement": list(status.pending_replacement),
        "scaledDownTo": dict(status.scaled_down_to),
        "limitExceeded": status.limit_exceeded,
        WORKLOAD: truncate_end(status.workload, MAX_SHORT_NAME_BYTES),
        "failure": failure_document(status.failure),
        "trainerStatus": training.document(status.trainer) if status.trainer else {},
        "stragglers": [_straggler_document(one) for one in status.stragglers[:MAX_STRAGGLERS]],
        "timeSpent": time_document(status.time_spent, steps=status.steps_known),
        "recentRestarts": [restart_document(restart) for restart in status.recent_restarts[-MAX_RECENT_RESTARTS:]],
    }
    return _with_completed_indexes(without_empty(fitted(whole, STATUS)), replica_statuses)


def status_patch(job: Job, before: Status, after: Status) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) for the status; the job's uid and resourceVersion are preconditions."""
    ready = sum(replica_status.ready for replica_status in after.replica_statuses.values())
    counts = {"restarts": after.retries.used, "totalRestarts": after.retries.total}  # kubectl prints zeros too
    columns = {"ready": f"{ready}/{job.size}", **counts}
    columns |= {"progress": after.progress} if after.trainer else {}
    changes = difference(*_documents(before, after)) | fitted(columns, STATUS)
    return {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": changes}


def same_status(before: Status, after: Status) -> bool:
    """Return whether both are stored as the same document."""
    if before == after:
        return True
    old, new = _documents(before, after)
    return old == new


def _documents(before: Status, after: Status) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the documents of both statuses, without the rest of them if only the report of the training differs.

    That is what changes most often. The completed indexes may have the bytes that a report leaves, and whether there is
    one with a step may matter for other fields.
    """
    old, new = before.trainer, after.trainer
    only_report = old and new and (old.step is None) is (new.step is None) and before == replace(after, trainer=old)
    if old is None or new is None or not only_report or any(one.done for one in after.replica_statuses.values()):
        return status_document(before), status_document(after)
    first, second = (fitted({"trainerStatus": training.document(report)}, STATUS) for report in (old, new))
    return first, second


def _waiting_since(status: Status) -> datetime | None:
    """Return the time since which the job has waited for its PodGroup.

    v1 writes the time of its last reconcile instead, and reconciles again a second later.
    """
    blocked = status.condition(ConditionType.BLOCKED)
    return blocked.changed if blocked and blocked.true and blocked.reason == WAITING_FOR_POD_GROUP else None


def _condition_document(condition: Condition) -> dict[str, Any]:
    return {
        "type": str(condition.type),
        "status": str(condition.true),
        "reason": truncate_end(condition.reason, MAX_NAME_BYTES),
        "message": truncate_end(condition.message, MAX_MESSAGE_BYTES),
        "lastUpdateTime": _time(condition.updated),
        "lastTransitionTime": _time(condition.changed),
    }


def _extra_document(condition: Condition | None, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a true condition that v1 does not have, without its status; `more` are other fields that it has."""
    if condition is None or not condition.true:
        return {}
    whole = _condition_document(condition)
    return {field: whole[field] for field in (*more, "reason", "message", "lastUpdateTime", "lastTransitionTime")}


def _replica_status_document(replica_status: ReplicaStatus) -> dict[str, Any]:
    found = {
        "active": replica_status.active + replica_status.not_running,
        "notRunning": replica_status.not_running,
        "succeeded": replica_status.succeeded,
        "failed": replica_status.failed,
        "ready": replica_status.ready,
        "selector": replica_status.selector,
    }
    return without_empty(found)


def _with_completed_indexes(whole: dict[str, Any], replica_statuses: Mapping[str, ReplicaStatus]) -> dict[str, Any]:
    """Add the completed indexes; the role with the most ranges comes last and gets the bytes that the others leave."""
    roles = sorted(
        (role for role, replica_status in replica_statuses.items() if replica_status.done),
        key=lambda role: len(replica_statuses[role].done.ranges),
    )
    counts = whole.get("replicaStatuses", {})
    for left, role in zip(range(len(roles), 0, -1), roles, strict=True):
        room = MAX_STATUS_BYTES - COLUMN_BYTES - json_size(whole | {"replicaStatuses": counts})
        text = replica_statuses[role].done.text(room // left - len('"completedIndexes":"",'))
        counts = counts | {role: counts[role] | without_empty({"completedIndexes": text})}
    return whole | {"replicaStatuses": counts} if roles else whole


def _waiting_document(waiting: Waiting) -> dict[str, Any]:
    found = {
        "replicaType": truncate_end(waiting.role, MAX_SHORT_NAME_BYTES),
        "indexes": truncate_end(waiting.indexes, MAX_SHORT_NAME_BYTES),
        "node": truncate_end(waiting.node, MAX_SHORT_NAME_BYTES),
        "container": truncate_end(waiting.container, MAX_SHORT_NAME_BYTES),
        "reason": truncate_end(waiting.reason, MAX_SHORT_NAME_BYTES),
        "message": truncate_end(waiting.message, MAX_WAITING_MESSAGE_BYTES),
        "since": _time(waiting.since),
        "count": waiting.count,
    }
    return without_empty(found)


def _straggler_document(one: Straggler) -> dict[str, Any]:
    found = {"pod": truncate_end(one.pod, MAX_NAME_BYTES), "node": truncate_end(one.node, MAX_NAME_BYTES)}
    return {"rank": int32(one.rank)} | without_empty(found)


def _time(time: datetime | None) -> str | None:
    return format_time(time) if time else None


def parse_status(document: Document) -> Status:
    """Parse the status in a job's document; values of an unexpected type are skipped."""
    found = as_mapping(document.get("status"))
    if not found:
        return Status()
    replica_statuses = as_mapping(found.get("replicaStatuses"))
    retry = as_mapping(found.get("retry"))
    return Status(
        conditions=_parse_conditions(found),
        replica_statuses={
            str(role): _parse_replica_status(as_mapping(item)) for role, item in replica_statuses.items()
        },
        start=parse_time(found.get("startTime")),
        completion=parse_time(found.get("completionTime")),
        attempts=_parse_counts(found.get("attempts")),
        retries=Retries(
            used=parse_count(found.get("restarts")),
            consecutive_failures=parse_count(retry.get("consecutiveFailures")),
            next_retry_time=parse_time(retry.get("nextRetryTime")),
            container_restarts=parse_count(retry.get("containerRestarts")),
            deleted_pod_container_restarts=parse_count(retry.get("deletedPodContainerRestarts")),
        ),
        pending_replacement=tuple(
            uid for uid in as_sequence(found.get("podsPendingReplacement")) if isinstance(uid, str)
        ),
        failure=parse_failure(as_mapping(found.get("failure"))),
        scaled_down_to=_parse_counts(found.get("scaledDownTo")),
        time_spent=parse_time_spent(found),
        limit_exceeded=limit if (limit := text_of(found, "limitExceeded")) in LIMITS else "",
        recent_restarts=tuple(
            filter(None, map(parse_restart, as_sequence(found.get("recentRestarts"))[-MAX_RECENT_RESTARTS:]))
        ),
        waiting=tuple(filter(None, map(_parse_waiting, as_sequence(found.get("waiting"))))),
        trainer=training.parse_stored(found["trainerStatus"]) if "trainerStatus" in found else None,
        stragglers=tuple(map(_parse_straggler, as_sequence(found.get("stragglers"))[:MAX_STRAGGLERS])),
        workload=text_of(found, WORKLOAD),
        state=text_of(found, "state"),
        reason=text_of(found, "reason"),
    )


def _parse_conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return the first condition of each type, those that v1 does not have last.

    Version 0.1 stored them among the others. An announced end is a decision, and is still accepted there; the
    planner sets Blocked again, and an entry of it goes with the next change of the others.
    """
    ending = as_mapping(status.get("ending"))
    own = ((kind, as_mapping(status.get(field))) for kind, field in OWN_FIELDS.items())
    extra = [{**details, "type": kind, "status": "True"} for kind, details in own if details]
    extra += [{**ending, "status": "True"}] if ending.get("type") in TERMINAL.values() else []
    found: dict[ConditionType, Condition] = {}
    for item in (*as_sequence(status.get("conditions")), *extra):
        condition = _parse_condition(item)
        if condition and (condition.type not in OWN_FIELDS or item in extra):
            found.setdefault(condition.type, condition)
    return tuple(sorted(found.values(), key=lambda condition: condition.type in EXTRA))


def _parse_counts(found: object) -> dict[str, int]:
    return {str(role): parse_count(number) for role, number in as_mapping(found).items()}


def _parse_condition(item: object) -> Condition | None:
    found = as_mapping(item)
    kind = found.get("type")
    if kind not in tuple(ConditionType):
        return None
    updated = parse_time(found.get("lastUpdateTime")) or datetime.fromtimestamp(0, UTC)
    changed = parse_time(found.get("lastTransitionTime")) or updated
    words = (parse_text(found.get("reason")), parse_text(found.get("message")))
    return Condition(ConditionType(kind), found.get("status") == "True", *words, updated=updated, changed=changed)


def _parse_replica_status(found: Mapping[str, Any]) -> ReplicaStatus:
    active = parse_count(found.get("active"))
    not_running = min(parse_count(found.get("notRunning")), active)
    return ReplicaStatus(
        active=active - not_running,
        not_running=not_running,
        succeeded=parse_count(found.get("succeeded")),
        failed=parse_count(found.get("failed")),
        ready=parse_count(found.get("ready")),
        selector=text_of(found, "selector"),
        done=Indexes.parse(completed) if (completed := text_of(found, "completedIndexes")) else Indexes(),
    )


def _parse_waiting(item: object) -> Waiting | None:
    found = as_mapping(item)
    since = parse_time(found.get("since"))
    if since is None:
        return None
    return Waiting(
        role=text_of(found, "replicaType"),
        indexes=text_of(found, "indexes"),
        count=parse_count(found.get("count")),
        reason=text_of(found, "reason"),
        message=text_of(found, "message"),
        since=since,
        node=text_of(found, "node"),
        container=text_of(found, "container"),
    )


def _parse_straggler(item: object) -> Straggler:
    found = as_mapping(item)
    return Straggler(parse_count(found.get("rank")), text_of(found, "pod"), text_of(found, "node"))

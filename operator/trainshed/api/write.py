"""Serialize a status, and build merge patches."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .actions import ReleasePod
from .brevity import head, tail, weight
from .gang import WAITING
from .job import Document, Job
from .status import Condition, Failure, Kind, Restart, Status, Tally
from .status_schema import encodable, fitted

#: The largest size of a status in bytes of JSON, and the part of it that is reserved for what `patch` adds.
MOST, COLUMNS = 16_000, 64
#: The largest size in bytes of a message, a termination message, a failure's summary, and a name in it.
MESSAGE, LAST_WORDS, SUMMARY, NAME = 1024, 1024, 400, 128
#: The largest size in bytes of a name in `recentRestarts`, and the largest number of its items.
SHORT_NAME, RECENT = 64, 10


def status(status: Status) -> dict[str, Any]:
    """Return the status as the API server stores it; zero and empty values are left out.

    Long messages and names are truncated. The completed indexes may take the bytes that the other fields leave. The
    result always matches the schema of the CRD.
    """
    retries, tallies = status.retries, {encodable(role): tally for role, tally in status.tallies.items()}
    retry = {
        "streak": retries.streak,
        "notBefore": _time(retries.not_before),
        "inPlace": retries.in_place,
        "inPlaceGone": retries.in_place_gone,
    }
    whole = {
        "conditions": [_condition(condition) for condition in status.conditions],
        "replicaStatuses": {role: _tally(tally) for role, tally in tallies.items()},
        "startTime": _time(status.start),
        "completionTime": _time(status.completion),
        "lastReconcileTime": _time(_waiting_since(status)),
        "attempts": dict(status.attempts),
        "restarts": retries.used,
        "retry": _lean(retry),
        "replacing": list(status.replacing),
        "shrunk": dict(status.shrunk),
        "failure": _failure(status.failure),
        "recentRestarts": [_restart(restart) for restart in status.recent[-RECENT:]],
    }
    return _with_memory(_lean(fitted(whole)), tallies)


def patch(job: Job, before: Status, after: Status) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) for the status; the job's uid and resourceVersion are preconditions."""
    ready = sum(tally.ready for tally in after.tallies.values())
    columns = {
        "ready": f"{ready}/{job.size}",
        "restarts": after.retries.used,
    }  # kubectl prints zeros too
    difference = _difference(status(before), status(after)) | fitted(columns)
    return {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": difference}


def same(before: Status, after: Status) -> bool:
    """Return whether both are stored as the same document."""
    return before == after or status(before) == status(after)


def release(action: ReleasePod) -> dict[str, Any]:
    """Return the merge patch that removes Trainshed's finalizer; uid and resourceVersion are preconditions."""
    finalizers = list(action.finalizers) or None
    return {"metadata": {"uid": action.uid, "resourceVersion": action.version, "finalizers": finalizers}}


def _difference(before: Document, after: Document) -> dict[str, Any]:
    gone = {key: None for key in before if key not in after}
    changed = {
        key: _difference(before[key], value) if isinstance(value, dict) and isinstance(before.get(key), dict) else value
        for key, value in after.items()
        if before.get(key) != value
    }
    return gone | changed


def _waiting_since(status: Status) -> datetime | None:
    """Return the time since which the job has waited for its PodGroup.

    v1 writes the time of its last reconcile instead, and reconciles again a second later.
    """
    blocked = status.condition(Kind.BLOCKED)
    return blocked.changed if blocked and blocked.true and blocked.reason == WAITING else None


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "type": str(condition.type),
        "status": str(condition.true),
        "reason": head(condition.reason, NAME),
        "message": head(condition.message, MESSAGE),
        "lastUpdateTime": _time(condition.updated),
        "lastTransitionTime": _time(condition.changed),
    }


def _tally(tally: Tally) -> dict[str, Any]:
    found = {
        "active": tally.active,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "ready": tally.ready,
        "selector": tally.selector,
    }
    return _lean(found)


def _with_memory(whole: dict[str, Any], tallies: Mapping[str, Tally]) -> dict[str, Any]:
    """Add the completed indexes; the role with the most ranges comes last and gets the bytes that the others leave."""
    roles = sorted(
        (role for role, tally in tallies.items() if tally.done), key=lambda role: len(tallies[role].done.ranges)
    )
    counts = whole.get("replicaStatuses", {})
    for left, role in zip(range(len(roles), 0, -1), roles, strict=True):
        room = MOST - COLUMNS - weight(whole | {"replicaStatuses": counts})
        text = tallies[role].done.text(room // left - len('"succeededIndexes":"",'))
        counts = counts | {role: counts[role] | _lean({"succeededIndexes": text})}
    return whole | {"replicaStatuses": counts} if roles else whole


def _failure(failure: Failure | None) -> dict[str, Any]:
    if failure is None:
        return {}
    found = {
        "pod": head(failure.pod, NAME),
        "member": head(failure.member, SHORT_NAME),
        "container": head(failure.container, NAME),
        "class": head(failure.kind, SHORT_NAME),
        "reason": head(failure.reason, NAME),
        "node": head(failure.node, NAME),
        "message": head(failure.message, SUMMARY),
        "terminationMessage": tail(failure.termination_message, LAST_WORDS),
        "time": _time(failure.time),
    }
    return _lean(found) | _known({"exitCode": failure.exit_code, "ranSeconds": failure.ran})


def _restart(restart: Restart) -> dict[str, Any]:
    found = {
        "time": _time(restart.time),
        "attempt": restart.attempt,
        "member": head(restart.member, SHORT_NAME),
        "node": head(restart.node, SHORT_NAME),
        "class": head(restart.kind, SHORT_NAME),
        "reason": head(restart.reason, SHORT_NAME),
        "members": restart.members,
    }
    return _lean(found) | _known({"exitCode": restart.exit_code, "lostSeconds": restart.lost})


def _time(time: datetime | None) -> str | None:
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if time else None


def _known(found: dict[str, int | None]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}


def _lean(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value not in (None, 0, "", [], {})}

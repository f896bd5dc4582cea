"""Status out to a dictionary, and the difference between two of them as a merge patch."""

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

#: Bytes of JSON that a status may take, whatever its job, and what `patch` adds to it.
MOST, COLUMNS = 16_000, 64
#: Bytes that a message, the last words of a failure, a sentence about it, and a name in it may take.
MESSAGE, LAST_WORDS, SUMMARY, NAME = 1024, 1024, 400, 128
#: Bytes of a name in one of several restarts, and how many of these there are at the most.
SHORT_NAME, RECENT = 64, 10


def status(status: Status) -> dict[str, Any]:
    """The status as the API server stores it: v1's fields, and ours beside them; what is zero or empty is left out.

    What words and names are too long is cut. Who has succeeded may take what room the rest leaves. Whatever the status
    holds, the schema of the CRD accepts this.
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
    """The merge patch (RFC 7386) for the status of this very job at the version that was read."""
    ready = sum(tally.ready for tally in after.tallies.values())
    columns = {"ready": f"{ready}/{job.size}", "restarts": after.retries.used}  # shown even if they are zero
    difference = _difference(status(before), status(after)) | fitted(columns)
    return {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": difference}


def same(before: Status, after: Status) -> bool:
    """Whether both are stored as the same document."""
    return before == after or status(before) == status(after)


def release(action: ReleasePod) -> dict[str, Any]:
    """The merge patch that takes our finalizer off this very pod at the version that was read."""
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
    """Since when the job waits for its group: v1 says when it looked last, and again a second later."""
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
    """The status and who has succeeded: the role with the most gaps last, which has what the others leave."""
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
        "summary": head(failure.summary, SUMMARY),
        "message": tail(failure.message, LAST_WORDS),
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

"""Status out to a dictionary, and the difference between two of them as a merge patch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from .gang import WAITING
from .job import Document, Job
from .status import Condition, Failure, Kind, Status, Tally


def status(status: Status) -> dict[str, Any]:
    """The status as the API server stores it: v1's fields, and ours beside them; what is zero or empty is left out."""
    retries = status.retries
    retry = {
        "streak": retries.streak,
        "notBefore": _time(retries.not_before),
        "inPlace": retries.in_place,
        "inPlaceGone": retries.in_place_gone,
    }
    whole = {
        "conditions": [_condition(condition) for condition in status.conditions],
        "replicaStatuses": {role: _tally(tally) for role, tally in status.tallies.items()},
        "startTime": _time(status.start),
        "completionTime": _time(status.completion),
        "lastReconcileTime": _time(_waiting_since(status)),
        "attempts": dict(status.attempts),
        "restarts": retries.used,
        "retry": _lean(retry),
        "replacing": list(status.replacing),
        "failure": _failure(status.failure),
    }
    return _lean(whole)


def patch(job: Job, before: Status, after: Status) -> dict[str, Any]:
    """The merge patch (RFC 7386) for the status of this very job at the version that was read."""
    ready = sum(tally.ready for tally in after.tallies.values())
    columns = {"ready": f"{ready}/{job.size}", "restarts": after.retries.used}  # shown even if they are zero
    difference = _difference(status(before), status(after)) | columns
    return {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": difference}


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
        "reason": condition.reason,
        "message": condition.message,
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
        "succeededIndexes": str(tally.done),
    }
    return _lean(found)


def _failure(failure: Failure | None) -> dict[str, Any]:
    if failure is None:
        return {}
    found = {
        "pod": failure.pod,
        "class": failure.kind,
        "reason": failure.reason,
        "node": failure.node,
        "message": failure.message,
        "time": _time(failure.time),
    }
    return _lean(found) | ({} if failure.exit_code is None else {"exitCode": failure.exit_code})


def _time(time: datetime | None) -> str | None:
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if time else None


def _lean(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value not in (None, 0, "", [], {})}

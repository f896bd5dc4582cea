"""The status as we stored it, read back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .indexes import Indexes
from .job import Document
from .pieces import integer, mapping, sequence, time
from .status import Condition, Failure, Kind, Restart, Retries, Status, Tally


def status(document: Document) -> Status:
    """The status in this document; what does not look like one of ours is passed over."""
    found = mapping(document.get("status"))
    tallies = mapping(found.get("replicaStatuses"))
    retry = mapping(found.get("retry"))
    return Status(
        conditions=tuple(condition for item in sequence(found.get("conditions")) if (condition := _condition(item))),
        tallies={str(role): _tally(mapping(item)) for role, item in tallies.items()},
        start=time(found.get("startTime")),
        completion=time(found.get("completionTime")),
        attempts={str(role): integer(count) for role, count in mapping(found.get("attempts")).items()},
        retries=Retries(
            used=integer(found.get("restarts")),
            streak=integer(retry.get("streak")),
            not_before=time(retry.get("notBefore")),
            in_place=integer(retry.get("inPlace")),
            in_place_gone=integer(retry.get("inPlaceGone")),
        ),
        replacing=tuple(str(uid) for uid in sequence(found.get("replacing"))),
        failure=_failure(mapping(found.get("failure"))),
        shrunk={str(role): integer(count) for role, count in mapping(found.get("shrunk")).items()},
        recent=tuple(restart for item in sequence(found.get("recentRestarts")) if (restart := _restart(mapping(item)))),
    )


def _condition(item: object) -> Condition | None:
    found = mapping(item)
    kind = found.get("type")
    if kind not in tuple(Kind):
        return None
    updated = time(found.get("lastUpdateTime")) or datetime.fromtimestamp(0, UTC)
    changed = time(found.get("lastTransitionTime")) or updated
    words = (str(found.get("reason", "")), str(found.get("message", "")))
    return Condition(Kind(kind), found.get("status") == "True", *words, updated=updated, changed=changed)


def _tally(found: Mapping[str, Any]) -> Tally:
    return Tally(
        active=integer(found.get("active")),
        succeeded=integer(found.get("succeeded")),
        failed=integer(found.get("failed")),
        ready=integer(found.get("ready")),
        selector=str(found.get("selector", "")),
        done=Indexes.parse(str(found.get("succeededIndexes", ""))),
    )


def _failure(found: Mapping[str, Any]) -> Failure | None:
    ended = time(found.get("time"))
    if ended is None:
        return None
    return Failure(
        pod=_text(found, "pod"),
        kind=_text(found, "class"),
        reason=_text(found, "reason"),
        exit_code=_number(found, "exitCode"),
        node=_text(found, "node"),
        message=_text(found, "message"),
        time=ended,
        member=_text(found, "member"),
        container=_text(found, "container"),
        ran=_number(found, "ranSeconds"),
        summary=_text(found, "summary"),
    )


def _restart(found: Mapping[str, Any]) -> Restart | None:
    failed = time(found.get("time"))
    if failed is None:
        return None
    return Restart(
        time=failed,
        attempt=integer(found.get("attempt")),
        member=_text(found, "member"),
        node=_text(found, "node"),
        kind=_text(found, "class"),
        reason=_text(found, "reason"),
        exit_code=_number(found, "exitCode"),
        members=integer(found.get("members")),
        lost=_number(found, "lostSeconds"),
    )


def _text(found: Mapping[str, Any], key: str) -> str:
    return str(found.get(key, ""))


def _number(found: Mapping[str, Any], key: str) -> int | None:
    value = found.get(key)
    return value if isinstance(value, int) else None

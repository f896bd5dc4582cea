"""Parse the stored status of a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .indexes import Indexes
from .job import Document
from .pieces import count, mapping, sequence, text, time
from .status import Condition, Failure, Kind, Restart, Retries, Status, Tally
from .status_schema import int32


def status(document: Document) -> Status:
    """Parse the status in a job's document; values of an unexpected type are skipped."""
    found = mapping(document.get("status"))
    tallies = mapping(found.get("replicaStatuses"))
    retry = mapping(found.get("retry"))
    return Status(
        conditions=_conditions(sequence(found.get("conditions"))),
        tallies={str(role): _tally(mapping(item)) for role, item in tallies.items()},
        start=time(found.get("startTime")),
        completion=time(found.get("completionTime")),
        attempts=_counts(found.get("attempts")),
        retries=Retries(
            used=count(found.get("restarts")),
            streak=count(retry.get("streak")),
            not_before=time(retry.get("notBefore")),
            in_place=count(retry.get("inPlace")),
            in_place_gone=count(retry.get("inPlaceGone")),
        ),
        replacing=tuple(uid for uid in sequence(found.get("replacing")) if isinstance(uid, str)),
        failure=_failure(mapping(found.get("failure"))),
        shrunk=_counts(found.get("shrunk")),
        recent=tuple(restart for item in sequence(found.get("recentRestarts")) if (restart := _restart(mapping(item)))),
    )


def _conditions(items: list[Any]) -> tuple[Condition, ...]:
    """Return the first condition of each type."""
    found: dict[Kind, Condition] = {}
    for item in items:
        condition = _condition(item)
        if condition:
            found.setdefault(condition.type, condition)
    return tuple(found.values())


def _counts(found: object) -> dict[str, int]:
    return {str(role): count(number) for role, number in mapping(found).items()}


def _condition(item: object) -> Condition | None:
    found = mapping(item)
    kind = found.get("type")
    if kind not in tuple(Kind):
        return None
    updated = time(found.get("lastUpdateTime")) or datetime.fromtimestamp(0, UTC)
    changed = time(found.get("lastTransitionTime")) or updated
    words = (text(found.get("reason")), text(found.get("message")))
    return Condition(Kind(kind), found.get("status") == "True", *words, updated=updated, changed=changed)


def _tally(found: Mapping[str, Any]) -> Tally:
    return Tally(
        active=count(found.get("active")),
        succeeded=count(found.get("succeeded")),
        failed=count(found.get("failed")),
        ready=count(found.get("ready")),
        selector=_text(found, "selector"),
        done=Indexes.parse(_text(found, "succeededIndexes")),
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
        termination_message=_text(found, "terminationMessage"),
        time=ended,
        member=_text(found, "member"),
        container=_text(found, "container"),
        ran=_number(found, "ranSeconds"),
        message=_text(found, "message"),
    )


def _restart(found: Mapping[str, Any]) -> Restart | None:
    failed = time(found.get("time"))
    if failed is None:
        return None
    return Restart(
        time=failed,
        attempt=count(found.get("attempt")),
        member=_text(found, "member"),
        node=_text(found, "node"),
        kind=_text(found, "class"),
        reason=_text(found, "reason"),
        exit_code=_number(found, "exitCode"),
        members=count(found.get("members")),
        lost=_number(found, "lostSeconds"),
    )


def _text(found: Mapping[str, Any], key: str) -> str:
    return text(found.get(key))


def _number(found: Mapping[str, Any], key: str) -> int | None:
    value = found.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return int32(value)

"""Converts the failure and the restarts of a status to documents, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .coerce import (
    as_mapping,
    format_time,
    number_of,
    parse_count,
    parse_time,
    text_of,
    truncate_end,
    truncate_start,
    without_empty,
    without_none,
)
from .status import (
    MAX_NAME_BYTES,
    MAX_SHORT_NAME_BYTES,
    MAX_SUMMARY_BYTES,
    MAX_TERMINATION_MESSAGE_BYTES,
    Failure,
    Restart,
)
from .status_schema import RESTART_NUMBERS


def failure_document(failure: Failure | None) -> dict[str, Any]:
    """Return the document of the failure in a status; empty if there is none."""
    if failure is None:
        return {}
    found = {
        "pod": truncate_end(failure.pod, MAX_NAME_BYTES),
        "replica": truncate_end(failure.replica, MAX_SHORT_NAME_BYTES),
        "container": truncate_end(failure.container, MAX_NAME_BYTES),
        "class": truncate_end(failure.kind, MAX_SHORT_NAME_BYTES),
        "reason": truncate_end(failure.reason, MAX_NAME_BYTES),
        "node": truncate_end(failure.node, MAX_NAME_BYTES),
        "message": truncate_end(failure.message, MAX_SUMMARY_BYTES),
        "terminationMessage": truncate_start(failure.termination_message, MAX_TERMINATION_MESSAGE_BYTES),
        "time": format_time(failure.time),
    }
    return without_empty(found) | without_none({"exitCode": failure.exit_code, "runDurationSeconds": failure.ran})


def parse_failure(found: Mapping[str, Any]) -> Failure | None:
    """Parse the failure of a status; None without a time."""
    ended = parse_time(found.get("time"))
    if ended is None:
        return None
    return Failure(
        pod=text_of(found, "pod"),
        kind=text_of(found, "class"),
        reason=text_of(found, "reason"),
        exit_code=number_of(found, "exitCode"),
        node=text_of(found, "node"),
        termination_message=text_of(found, "terminationMessage"),
        time=ended,
        replica=text_of(found, "replica"),
        container=text_of(found, "container"),
        ran=number_of(found, "runDurationSeconds"),
        message=text_of(found, "message"),
    )


def restart_document(restart: Restart) -> dict[str, Any]:
    """Return the document of a restart; unknown numbers are left out."""
    found = {
        "time": format_time(restart.time),
        "attempt": restart.attempt,
        "replica": truncate_end(restart.replica, MAX_SHORT_NAME_BYTES),
        "node": truncate_end(restart.node, MAX_SHORT_NAME_BYTES),
        "class": truncate_end(restart.kind, MAX_SHORT_NAME_BYTES),
        "reason": truncate_end(restart.reason, MAX_SHORT_NAME_BYTES),
        "replicasRestarted": restart.replicas_restarted,
    }
    return without_empty(found) | without_none(
        {name: getattr(restart, field) for name, field in RESTART_NUMBERS.items()}
    )


def parse_restart(item: object) -> Restart | None:
    """Parse a restart; None without a time."""
    found = as_mapping(item)
    failed = parse_time(found.get("time"))
    if failed is None:
        return None
    return Restart(
        time=failed,
        attempt=parse_count(found.get("attempt")),
        replica=text_of(found, "replica"),
        node=text_of(found, "node"),
        kind=text_of(found, "class"),
        reason=text_of(found, "reason"),
        replicas_restarted=parse_count(found.get("replicasRestarted")),
        **{field: number_of(found, name) for name, field in RESTART_NUMBERS.items()},
    )

"""The schema of the status in the CRDs, and the conversion of a document to it.

The API server rejects a whole status if one value does not match the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

#: The smallest and the largest number of the format int32.
SMALLEST, LARGEST = -(2**31), 2**31 - 1
TEXT = {"type": "string"}
WHOLE = {"type": "integer", "format": "int32"}
TIME = {"type": "string", "format": "date-time"}
#: The fields that describe a failure in `failure` and in `recentRestarts`.
CAUSE = ("replica", "node", "class", "reason")
#: The fields of the status: v1's and Trainshed's.
STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": dict.fromkeys(("type", "status", "reason", "message"), TEXT)
                | dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), TIME),
            },
        },
        "replicaStatuses": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": dict.fromkeys(("active", "notRunning", "succeeded", "failed", "ready"), WHOLE)
                | dict.fromkeys(("selector", "completedIndexes"), TEXT)
                | {"labelSelector": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            },
        },
        **dict.fromkeys(("startTime", "completionTime", "lastReconcileTime"), TIME),
        **{key: {"type": "object", "additionalProperties": WHOLE} for key in ("attempts", "scaledDownTo")},
        **dict.fromkeys(("restarts", "totalRestarts"), WHOLE),
        **dict.fromkeys(("state", "reason", "ready", "limitExceeded"), TEXT),
        "waiting": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": dict.fromkeys(("replicaType", "indexes", "node", "container", "reason", "message"), TEXT)
                | {"since": TIME, "count": WHOLE},
            },
        },
        "retry": {
            "type": "object",
            "properties": dict.fromkeys(
                ("consecutiveFailures", "containerRestarts", "deletedPodContainerRestarts"), WHOLE
            )
            | {"nextRetryTime": TIME},
        },
        "podsPendingReplacement": {"type": "array", "items": TEXT},
        "failure": {
            "type": "object",
            "properties": dict.fromkeys((*CAUSE, "pod", "container", "message", "terminationMessage"), TEXT)
            | dict.fromkeys(("exitCode", "runDurationSeconds"), WHOLE)
            | {"time": TIME},
        },
        "recentRestarts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": dict.fromkeys(CAUSE, TEXT)
                | dict.fromkeys(("attempt", "replicasRestarted", "exitCode", "recoverySeconds"), WHOLE)
                | {"time": TIME},
            },
        },
    },
}


def fitted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with values changed or removed so that it matches the schema.

    A number becomes the nearest int32. Characters that cannot be encoded are replaced.
    """
    return _object(document, STATUS) or {}


def int32(number: int) -> int:
    """Return the nearest int32."""
    return max(SMALLEST, min(number, LARGEST))


def _value(found: object, schema: Mapping[str, Any]) -> object:
    """Return the value as the schema accepts it, or None."""
    kind = schema["type"]
    if kind == "integer":
        return int32(int(found)) if isinstance(found, int) else None
    if kind == "string":
        return _text(found, schema) if isinstance(found, str) else None
    if kind == "array":
        items = found if isinstance(found, (list, tuple)) else ()
        return [item for value in items if (item := _value(value, schema["items"])) is not None]
    return _object(found, schema) if isinstance(found, Mapping) else None


def _object(found: Mapping[Any, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an object as the schema accepts it, or None if a required field is missing."""
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    texts = {encodable(key): value for key, value in found.items() if isinstance(key, str)}
    parts = {key: _value(value, part) for key, value in texts.items() if (part := properties.get(key, others))}
    known = {key: value for key, value in parts.items() if value is not None}
    return known if known.keys() >= set(schema.get("required", ())) else None


def _text(found: str, schema: Mapping[str, Any]) -> str | None:
    if schema.get("format") != "date-time":
        return encodable(found)
    try:
        time = datetime.fromisoformat(found)
    except ValueError:
        return None
    return found if time.tzinfo else None


def encodable(text: str) -> str:
    """Return the text with a question mark for each unpaired surrogate, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode(errors="replace").decode()

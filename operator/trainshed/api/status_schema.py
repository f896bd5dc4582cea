"""The schema of the status in the CRDs; `fitted` of `coerce.py` converts a document to it.

The API server rejects a whole status if one value does not match the schema.
"""

from __future__ import annotations

from typing import Any

from .time_codec import AVAILABILITY, FIELDS, GOODPUT, LOST_WORK

TEXT = {"type": "string"}
WHOLE = {"type": "integer", "format": "int32"}
NUMBER = {"type": "number"}
TIME = {"type": "string", "format": "date-time"}
#: The fields of a condition besides its type and its status.
DETAILS = dict.fromkeys(("reason", "message"), TEXT) | dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), TIME)
#: The fields that describe a failure in `failure` and in `recentRestarts`.
CAUSE = ("replica", "node", "class", "reason")
#: The fields of a restart that may be 0, each with its attribute in `status.Restart`; they are missing if not known.
RESTART_NUMBERS = {
    "exitCode": "exit_code",
    "recoverySeconds": "recovery_seconds",
    "totalRunningSeconds": "total_running_seconds",
    LOST_WORK: "lost_work_seconds",
}
#: The fields of the status: v1's and Trainshed's.
STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": dict.fromkeys(("type", "status"), TEXT) | DETAILS,
            },
        },
        **{key: {"type": "object", "properties": DETAILS} for key in ("blocked", "stalled")},
        "ending": {"type": "object", "properties": {"type": TEXT} | DETAILS},
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
        **dict.fromkeys(("state", "reason", "ready", "progress", "limitExceeded", "kueueWorkload"), TEXT),
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
        "trainerStatus": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("progressPercentage", "estimatedRemainingSeconds", "step", "totalSteps"), WHOLE),
                **dict.fromkeys(("epoch", "stepsPerSecond"), NUMBER),
                "lastUpdatedTime": TIME,
                "metrics": {
                    "type": "array",
                    "items": {"type": "object", "properties": dict.fromkeys(("name", "value"), TEXT)},
                },
            },
        },
        "stragglers": {
            "type": "array",
            "items": {"type": "object", "properties": {"rank": WHOLE} | dict.fromkeys(("pod", "node"), TEXT)},
        },
        "notified": {
            "type": "object",
            "properties": dict.fromkeys(("state", "id"), TEXT) | dict.fromkeys(("since", "restartTime"), TIME),
        },
        "timeSpent": {
            "type": "object",
            "properties": dict.fromkeys((*FIELDS.values(), LOST_WORK, AVAILABILITY, GOODPUT), WHOLE)
            | {"phase": TEXT, "since": TIME},
        },
        "recentRestarts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": dict.fromkeys(CAUSE, TEXT)
                | dict.fromkeys(("attempt", "replicasRestarted", *RESTART_NUMBERS), WHOLE)
                | {"time": TIME},
            },
        },
    },
}

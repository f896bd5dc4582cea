"""The schema of MetricSpec of autoscaling/v2, without its descriptions."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"}
AMOUNT: Schema = {"x-kubernetes-int-or-string": True}
TARGET: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": TEXT,
        "value": AMOUNT,
        "averageValue": AMOUNT,
        "averageUtilization": {"type": "integer", "format": "int32"},
    },
}
EXPRESSION: Schema = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {"key": TEXT, "operator": TEXT, "values": TEXTS},
}
SELECTOR: Schema = {
    "type": "object",
    "properties": {
        "matchExpressions": {"type": "array", "items": EXPRESSION, "x-kubernetes-list-type": "atomic"},
        "matchLabels": {"type": "object", "additionalProperties": TEXT},
    },
}
METRIC: Schema = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "selector": SELECTOR}}
REFERENCE: Schema = {
    "type": "object",
    "required": ["kind", "name"],
    "properties": {"apiVersion": TEXT, "kind": TEXT, "name": TEXT},
}
#: The fields of each type of metric; all are required.
SOURCES: dict[str, dict[str, Schema]] = {
    "containerResource": {"name": TEXT, "target": TARGET, "container": TEXT},
    "external": {"metric": METRIC, "target": TARGET},
    "object": {"describedObject": REFERENCE, "target": TARGET, "metric": METRIC},
    "pods": {"metric": METRIC, "target": TARGET},
    "resource": {"name": TEXT, "target": TARGET},
}
SCHEMA: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": TEXT,
        **{name: {"type": "object", "required": [*parts], "properties": parts} for name, parts in SOURCES.items()},
    },
}

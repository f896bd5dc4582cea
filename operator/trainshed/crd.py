"""The CustomResourceDefinitions: the schemas of spec, pod template, autoscaler metrics and status."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from trainshed.api import descriptions
from trainshed.api.framework import Framework
from trainshed.api.spec import QUANTITY_PATTERN, Level, Rule
from trainshed.api.status_schema import STATUS, TEXT
from trainshed.api.validation import MAX_NAME_LENGTH, rules

COLUMNS = (
    ("State", "string", ".status.state", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Ready", "string", ".status.ready", 1),
    ("Restarts", "integer", ".status.totalRestarts", 1),
    ("Progress", "string", ".status.progress", 1),
    ("Reason", "string", ".status.reason", 1),
    ("Blocked", "string", ".status.blocked.message", 1),
    ("Stalled", "string", ".status.stalled.message", 1),
    ("Last Failure", "string", ".status.failure.message", 1),
)
#: The types of errors in messages, and the API server's names for them.
REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
}
#: Fields that the API server describes, and fields whose inside is described by Kubernetes' own kinds.
KUBERNETES_FIELDS = ("apiVersion", "kind", "metadata")
KUBERNETES_PARTS = (".template", ".elasticPolicy.metrics")
UNCHANGED = (
    "has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)"
)
IMMUTABLE = {
    "managedBy": (
        UNCHANGED,
        "spec.runPolicy.managedBy: Invalid value: field is immutable",
    ),
    "queue": ("self == oldSelf", "spec.runPolicy.schedulingPolicy.queue is immutable"),
}


def definition(framework: Framework) -> dict[str, Any]:
    """Return the CRD of a kind."""
    names = {
        "kind": framework.kind,
        "listKind": f"{framework.kind}List",
        "plural": framework.plural,
        "singular": framework.kind.lower(),
    }
    spec = {"group": "kubeflow.org", "names": names, "scope": "Namespaced", "versions": [_version(framework)]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{framework.plural}.kubeflow.org"},
        "spec": spec,
    }


def _version(framework: Framework) -> dict[str, Any]:
    printed = [
        {"name": name, "type": kind, "jsonPath": path} | ({"priority": priority} if priority else {})
        for name, kind, path, priority in columns(framework)
    ]
    return {
        "name": framework.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": printed,
        "subresources": {"status": {}} | _scale(framework),
        "schema": {"openAPIV3Schema": _schema(framework)},
    }


def columns(framework: Framework) -> tuple[tuple[str, str, str, int], ...]:
    """Return the printer columns: name, type, JSON path, and priority (1: only with `-o wide`)."""
    state, age, *wide = COLUMNS
    return (age, state, *wide) if framework.age_first else COLUMNS


def _scale(framework: Framework) -> dict[str, Any]:
    if not framework.selectors:
        return {}
    paths = {
        "specReplicasPath": f".spec.{framework.field}.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }
    return {"scale": paths}


def _schema(framework: Framework) -> dict[str, Any]:
    described = framework.spec.model_json_schema(by_alias=True)
    spec = _plain(described, described.get("$defs", {}))
    replicas = spec["properties"][framework.field]
    group = replicas["additionalProperties"]
    group["properties"]["template"] = copy.deepcopy(template_schema())
    containers = group["properties"]["template"]["properties"]["spec"]["properties"]["containers"]
    if "elasticPolicy" in spec["properties"]:
        spec["properties"]["elasticPolicy"]["properties"]["metrics"]["items"] = METRIC_SCHEMA
    policy = spec["properties"]["runPolicy"]
    policy["default"] = {}
    policy["x-kubernetes-validations"] = [_immutable("managedBy")]
    queue = policy["properties"]["schedulingPolicy"]["properties"]["queue"]
    queue["x-kubernetes-validations"] = [_immutable("queue")]
    whole = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": MAX_NAME_LENGTH}}},
            "spec": spec,
            "status": copy.deepcopy(STATUS),
        },
    }
    places = (whole, spec, replicas, group, containers, containers["items"])
    for level, place in zip(Level, places, strict=True):
        if validations := _validations(framework, level):
            place["x-kubernetes-validations"] = validations
    return _described(whole, framework)


def _described(whole: dict[str, Any], framework: Framework) -> dict[str, Any]:
    """Return the schema of a job with its descriptions, which come first, as in the files of other projects."""
    for path, parent, name in list(_places(whole, "")):
        parent[name] = {"description": descriptions.of_field(framework, path), **parent[name]}
    return {"description": descriptions.of_kind(framework), **whole}


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of Trainshed's own in the schema of a job: the path as in `kubectl explain`, and the schema.

    Not among them are those of Kubernetes: apiVersion, kind, metadata, the inside of pod templates and of metrics.
    """
    for name, parent, key in _places(schema, path):
        yield name, parent[key]


def _places(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the path of each field, with the properties that hold it and its name there."""
    for name, part in node.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        if inner in KUBERNETES_FIELDS:
            continue
        yield inner, node["properties"], name
        if not inner.endswith(KUBERNETES_PARTS):
            yield from _places(part.get("items", part.get("additionalProperties", part)), inner)


def _validations(framework: Framework, level: Level) -> list[dict[str, str]]:
    at = level.format(field=framework.field)
    updates = framework.update_rules if level is Level.SPEC else ()
    return [
        *(_validation(rule, at) for rule in rules(framework) if rule.level is level),
        *(_worded(rule.cel, rule.message, at) for rule in updates),
    ]


def _validation(rule: Rule, at: str) -> dict[str, str]:
    worded = {"messageExpression": rule.message_cel} if rule.message_cel else {}
    return _worded(rule.cel, rule.message, at) | worded


def _worded(cel: str, message: str, at: str) -> dict[str, str]:
    """Return the rule as in a CRD; the API server itself prefixes the message with the path and the type of error."""
    path, kind, detail = message.removeprefix(at).split(": ", 2)
    where = re.sub(r"\[(\w+)\]", r"['\1']", path if path.startswith(".") else f".{path}")
    return {"rule": cel, "message": detail} | ({"fieldPath": where} if path else {}) | {"reason": REASONS[kind]}


def _immutable(what: str) -> dict[str, str]:
    rule, message = IMMUTABLE[what]
    return {"rule": rule, "message": message}


def _plain(node: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema from pydantic to structural form: references inlined, the alternative `null` removed."""
    if "$ref" in node:
        return _plain(known[node["$ref"].rpartition("/")[2]], known)
    if "anyOf" in node:
        others = [part for part in node["anyOf"] if part.get("type") != "null"]
        return _plain(others[0], known) if len(others) == 1 else AMOUNT
    kept = ("type", "format", "enum", "minimum", "maximum", "maxLength", "maxItems", "minProperties", "maxProperties")
    found: dict[str, Any] = {key: node[key] for key in (*kept, "required") if key in node}
    if isinstance(node.get("default"), (bool, int, str)):
        found["default"] = node["default"]
    if "properties" in node:
        found["properties"] = {name: _plain(part, known) for name, part in node["properties"].items()}
    if "items" in node:
        found["items"] = _plain(node["items"], known)
    more = node.get("additionalProperties")
    if isinstance(more, dict):
        found["additionalProperties"] = _plain(more, known)
    elif found.get("type") == "object" and "properties" not in found:
        found["x-kubernetes-preserve-unknown-fields"] = True
    return found


#: The OpenAPI document that describes the template, and the name of its schema there.
WHERE, WHAT = "/openapi/v3/api/v1", "io.k8s.api.core.v1.PodTemplateSpec"
TEMPLATE_FILE = "pod_template.json"
#: Limits that bound the estimated cost of the CEL rules on containers; the API server rejects a CRD above its budget.
MOST_CONTAINERS, MOST_PORTS, LONGEST_NAME, LONGEST_IMAGE = 32, 256, 63, 1024

KEPT_KEYS = (
    *("type", "format", "enum", "required", "nullable"),
    *("x-kubernetes-int-or-string", "x-kubernetes-map-type"),
)
FORMATS = ("int32", "int64", "date-time", "byte", "double")
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
#: A quantity, with the pattern of v1's CRDs.
AMOUNT: dict[str, Any] = {"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}
#: Enumerations of optional fields in which an empty text stands for the default, as the API server reads it in a pod.
#: Others it refuses.
EMPTY_IS_DEFAULT = {
    *("dnsPolicy", "effect", "imagePullPolicy", "mode", "operator", "protocol", "pullPolicy", "restartPolicy"),
    *("scheme", "stopSignal", "terminationMessagePolicy"),
}
STRING = {"type": "string"}
STRINGS = {"type": "object", "additionalProperties": STRING}
#: The metadata of templates, of pods and of volume claims, have the fields that v1's CRDs keep.
METADATA_SCHEMA = {
    "type": "object",
    "properties": {
        "annotations": STRINGS,
        "finalizers": {"type": "array", "items": STRING},
        "labels": STRINGS,
        "name": STRING,
        "namespace": STRING,
    },
}
REPLACED = {QUANTITY: AMOUNT, METADATA: METADATA_SCHEMA}


def template_schema() -> dict[str, Any]:
    """Return the schema that is stored with this package."""
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(TEMPLATE_FILE).read_text(encoding="utf-8"))
    return found


def strip_template(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reduced schema from an API server's OpenAPI document.

    References are inlined; descriptions and defaults are removed.
    """
    template = strip_part(document["components"]["schemas"], WHAT)
    containers = template["properties"]["spec"]["properties"]["containers"]
    containers["maxItems"] = MOST_CONTAINERS
    containers["items"]["properties"]["name"]["maxLength"] = LONGEST_NAME
    containers["items"]["properties"]["ports"]["maxItems"] = MOST_PORTS
    containers["items"]["properties"]["image"]["maxLength"] = LONGEST_IMAGE
    return template


def strip_part(schemas: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one of these schemas, reduced in the same way."""
    return _strip({"$ref": f"#/components/schemas/{name}"}, schemas)


def _strip(node: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), "")
    if reference:
        name = reference.rpartition("/")[2]
        return REPLACED.get(name) or _strip(known[name], known)
    if node.get("format") == "int-or-string" or "oneOf" in node:
        return {"x-kubernetes-int-or-string": True}
    found = {key: value for key, value in node.items() if key in KEPT_KEYS and (key != "format" or value in FORMATS)}
    if "properties" in node:
        parts = {name: _strip(part, known) for name, part in sorted(node["properties"].items())}
        found["properties"] = {name: _with_empty(name, part, node) for name, part in parts.items()}
    for part in ("items", "additionalProperties"):
        if isinstance(node.get(part), dict):
            found[part] = _strip(node[part], known)
    return found | _list_keys(node, found)


def _with_empty(name: str, part: dict[str, Any], parent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, where its enumeration accepts the empty text if that stands for the default."""
    if "enum" not in part or name not in EMPTY_IS_DEFAULT or name in parent.get("required", ()):
        return part
    return part | {"enum": ["", *part["enum"]]}


def _list_keys(node: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a list merges.

    An optional map key would need a default, which the API server would write into each job.
    """
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys", [])
    if kind is None or not set(keys) <= set(found.get("items", {}).get("required", ())):
        return {}
    return {"x-kubernetes-list-type": kind} | ({"x-kubernetes-list-map-keys": keys} if keys else {})


Schema = dict[str, Any]

METRIC_STRING: Schema = {"type": "string"}
METRIC_STRINGS: Schema = {"type": "array", "items": METRIC_STRING, "x-kubernetes-list-type": "atomic"}
TARGET: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": METRIC_STRING,
        "value": AMOUNT,
        "averageValue": AMOUNT,
        "averageUtilization": {"type": "integer", "format": "int32"},
    },
}
EXPRESSION: Schema = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {"key": METRIC_STRING, "operator": METRIC_STRING, "values": METRIC_STRINGS},
}
SELECTOR: Schema = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "matchExpressions": {"type": "array", "items": EXPRESSION, "x-kubernetes-list-type": "atomic"},
        "matchLabels": {"type": "object", "additionalProperties": METRIC_STRING},
    },
}
METRIC_IDENTIFIER: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": METRIC_STRING, "selector": SELECTOR},
}
REFERENCE: Schema = {
    "type": "object",
    "required": ["kind", "name"],
    "properties": {"apiVersion": METRIC_STRING, "kind": METRIC_STRING, "name": METRIC_STRING},
}
#: The fields of each type of metric; all are required.
SOURCES: dict[str, dict[str, Schema]] = {
    "containerResource": {"name": METRIC_STRING, "target": TARGET, "container": METRIC_STRING},
    "external": {"metric": METRIC_IDENTIFIER, "target": TARGET},
    "object": {"describedObject": REFERENCE, "target": TARGET, "metric": METRIC_IDENTIFIER},
    "pods": {"metric": METRIC_IDENTIFIER, "target": TARGET},
    "resource": {"name": METRIC_STRING, "target": TARGET},
}
METRIC_SCHEMA: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": METRIC_STRING,
        **{name: {"type": "object", "required": [*parts], "properties": parts} for name, parts in SOURCES.items()},
    },
}

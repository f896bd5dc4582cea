"""The CustomResourceDefinition of a kind, made from its spec model, its rules and the pod template's schema."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from . import metric, template
from .claim import Place, Rule
from .framework import Framework
from .rules import LONGEST_NAME, rules
from .status_schema import STATUS, TEXT

COLUMNS = (
    ("State", "string", ".status.conditions[-1:].type", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Ready", "string", ".status.ready", 1),
    ("Restarts", "integer", ".status.restarts", 1),
    ("Reason", "string", ".status.conditions[-1:].reason", 1),
    ("Failure", "string", ".status.failure.message", 1),
)
#: The types of errors in messages, and the API server's names for them.
REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
}
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
    group["properties"]["template"] = copy.deepcopy(template.schema())
    container = group["properties"]["template"]["properties"]["spec"]["properties"]["containers"]["items"]
    group["x-kubernetes-validations"] = _validations(framework, Place.REPLICAS)
    container["x-kubernetes-validations"] = _validations(framework, Place.CONTAINER)
    if "elasticPolicy" in spec["properties"]:
        spec["properties"]["elasticPolicy"]["properties"]["metrics"]["items"] = metric.SCHEMA
    policy = spec["properties"]["runPolicy"]
    policy["default"] = {}
    policy["x-kubernetes-validations"] = [_immutable("managedBy")]
    queue = policy["properties"]["schedulingPolicy"]["properties"]["queue"]
    queue["x-kubernetes-validations"] = [_immutable("queue")]
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": LONGEST_NAME}}},
            "spec": spec,
            "status": STATUS,
        },
        "x-kubernetes-validations": _validations(framework, Place.JOB),
    }


def _validations(framework: Framework, place: Place) -> list[dict[str, str]]:
    at = f"spec.{framework.field}{place}" if place else ""
    return [_validation(rule, at) for rule in rules(framework) if rule.place is place]


def _validation(rule: Rule, at: str) -> dict[str, str]:
    """Return the rule as in a CRD; the API server itself prefixes the message with the path and the type of error."""
    path, kind, detail = rule.message.removeprefix(at).split(": ", 2)
    worded = {"messageExpression": rule.message_cel} if rule.message_cel else {}
    where = re.sub(r"\[(\w+)\]", r"['\1']", path if path.startswith(".") else f".{path}")
    return {"rule": rule.cel, "message": detail, "fieldPath": where, "reason": REASONS[kind]} | worded


def _immutable(what: str) -> dict[str, str]:
    rule, message = IMMUTABLE[what]
    return {"rule": rule, "message": message}


def _plain(node: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema from pydantic to structural form: references inlined, the alternative `null` removed."""
    if "$ref" in node:
        return _plain(known[node["$ref"].rpartition("/")[2]], known)
    if "anyOf" in node:
        others = [part for part in node["anyOf"] if part.get("type") != "null"]
        return _plain(others[0], known) if len(others) == 1 else {"x-kubernetes-int-or-string": True}
    kept = ("type", "format", "enum", "minimum", "maximum", "maxLength", "maxItems", "minProperties", "maxProperties")
    found: dict[str, Any] = {key: node[key] for key in (*kept, "required") if key in node}
    if node.get("default") is False:
        found["default"] = False
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

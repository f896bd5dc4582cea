"""The schema of a pod template for CRDs, reduced from an API server's OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

#: The OpenAPI document that describes the template, and the name of its schema there.
WHERE, WHAT = "/openapi/v3/api/v1", "io.k8s.api.core.v1.PodTemplateSpec"
FILE = "pod_template.json"
#: Limits that bound the estimated cost of the CEL rules on containers; the API server rejects a CRD above its budget.
MOST_CONTAINERS, LONGEST_NAME, LONGEST_IMAGE = 32, 63, 1024

KEPT = ("type", "format", "enum", "required", "nullable", "x-kubernetes-int-or-string")
FORMATS = ("int32", "int64", "date-time", "byte", "double")
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
#: The template's metadata have the fields that v1's CRDs keep.
METADATA = {
    "type": "object",
    "properties": {
        "annotations": TEXTS,
        "finalizers": {"type": "array", "items": TEXT},
        "labels": TEXTS,
        "name": TEXT,
        "namespace": TEXT,
    },
}


def schema() -> dict[str, Any]:
    """Return the schema that is stored with this package."""
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found


def lean(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reduced schema from an API server's OpenAPI document.

    References are inlined; descriptions and defaults are removed.
    """
    template = lean_part(document["components"]["schemas"], WHAT)
    template["properties"]["metadata"] = METADATA
    containers = template["properties"]["spec"]["properties"]["containers"]
    containers["maxItems"] = MOST_CONTAINERS
    containers["items"]["properties"]["name"]["maxLength"] = LONGEST_NAME
    containers["items"]["properties"]["image"]["maxLength"] = LONGEST_IMAGE
    return template


def lean_part(schemas: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one of these schemas, reduced in the same way."""
    return _lean({"$ref": f"#/components/schemas/{name}"}, schemas)


def _lean(node: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), "")
    if reference:
        name = reference.rpartition("/")[2]
        return {"x-kubernetes-int-or-string": True} if name == QUANTITY else _lean(known[name], known)
    if node.get("format") == "int-or-string" or "oneOf" in node:
        return {"x-kubernetes-int-or-string": True}
    found = {key: value for key, value in node.items() if key in KEPT and (key != "format" or value in FORMATS)}
    if "properties" in node:
        found["properties"] = {name: _lean(part, known) for name, part in sorted(node["properties"].items())}
    for part in ("items", "additionalProperties"):
        if isinstance(node.get(part), dict):
            found[part] = _lean(node[part], known)
    return found | _list_keys(node, found)


def _list_keys(node: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a list merges.

    An optional map key would need a default, which the API server would write into each job.
    """
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys", [])
    if kind is None or not set(keys) <= set(found.get("items", {}).get("required", ())):
        return {}
    return {"x-kubernetes-list-type": kind} | ({"x-kubernetes-list-map-keys": keys} if keys else {})

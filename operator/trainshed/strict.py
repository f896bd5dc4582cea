"""What the API server refuses in a job besides what its rules say: unknown fields, wrong types, unknown annotations.

The schemas are those of the CRDs, the annotations those of the chart's admission policy. For wrong types outside of the
pod templates the model of the spec has its own messages, so only the templates are checked for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from trainshed import crd
from trainshed.api.framework import Framework
from trainshed.api.job_annotations import ANNOTATIONS, PREFIX
from trainshed.api.parse import QUANTITY_FORM, shown

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
#: The fields of ObjectMeta that users write, and the others.
WRITTEN = {"name": TEXT, "namespace": TEXT, "generateName": TEXT, "annotations": TEXTS, "labels": TEXTS}
OTHERS = (
    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation"),
    *("managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"),
)
METADATA = {"type": "object", "properties": WRITTEN | dict.fromkeys(OTHERS, ANYTHING), "typed": True}
INT_OR_STRING = "x-kubernetes-int-or-string"
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def problems(document: Mapping[str, Any], framework: Framework) -> list[str]:
    """Return what is wrong with a job, each with its path and, for a misspelt name, with a suggestion."""
    return [*_fields(document, _schema(framework), "", typed=False), *_annotations(document, framework)]


def schema_problems(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the unknown fields and wrong types of another object than a job, by a schema in which "typed" marks."""
    return _fields(document, schema, "", typed=False)


@cache
def _schema(framework: Framework) -> dict[str, Any]:
    schema: dict[str, Any] = crd.definition(framework)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    template = schema["properties"]["spec"]["properties"][framework.field]["additionalProperties"]["properties"][
        "template"
    ]
    template["typed"] = True
    return {**schema, "properties": {**schema["properties"], "metadata": METADATA}}


def _fields(value: object, schema: Mapping[str, Any], path: str, *, typed: bool) -> Iterator[str]:
    """Yield the problems of a value; a null is a field that is left out, but no item, as for the API server."""
    typed = typed or "typed" in schema
    if value is None:
        return
    if not _fits(value, schema):
        if typed:
            yield f"{path}: Invalid value: {shown(value)}must be of type {schema.get('type', 'integer or string')}"
        return
    if typed and value not in schema.get("enum", (value,)):
        listed = ", ".join(f'"{choice}"' for choice in schema["enum"] if choice)
        yield f"{path}: Unsupported value: {shown(value)}supported values: {listed}"
    if typed and "pattern" in schema and not re.fullmatch(schema["pattern"], str(value)):
        yield f"{path}: Invalid value: {shown(value)}{QUANTITY_FORM}"
    if isinstance(value, dict) and "type" in schema:
        yield from _properties(value, schema, path, typed=typed)
    if isinstance(value, list) and "type" in schema:
        for index, item in enumerate(value):
            if item is None and typed:
                yield f"{path}[{index}]: Invalid value: null: must be of type {schema['items'].get('type', 'integer')}"
            yield from _fields(item, schema["items"], f"{path}[{index}]", typed=typed)


def _properties(value: Mapping[Any, object], schema: Mapping[str, Any], path: str, *, typed: bool) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    dot = f"{path}." if path else ""
    for key, item in value.items():
        if key in known or others:
            yield from _fields(item, known.get(key, others), f"{dot}{key}", typed=typed)
        elif "x-kubernetes-preserve-unknown-fields" not in schema:
            yield f"{dot}{key}: unknown field{_suggestion(key, known)}"
    for name in schema.get("required", ()) if typed else ():
        if value.get(name) is None:
            yield f"{dot}{name}: Required value"


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    if INT_OR_STRING in schema:
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    wanted = schema.get("type")
    if wanted is None:
        return True
    return isinstance(value, TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))


def _suggestion(name: object, known: Iterable[str]) -> str:
    close = get_close_matches(str(name), [*known], n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""


def _annotations(document: Mapping[str, Any], framework: Framework) -> Iterator[str]:
    """Yield the annotations of Trainshed that do not exist, or that are in a place where they have no effect."""
    for key in _keys(document):
        if key not in ANNOTATIONS:
            listed = ", ".join(sorted(ANNOTATIONS))
            hint = _suggestion(key, ANNOTATIONS)
            yield f"metadata.annotations[{key}]: unknown annotation; supported annotations are {listed}{hint}"
    for role, group in _inner(_inner(document, "spec"), framework.field).items():
        for key in _keys(_inner(group, "template")):
            where = f"spec.{framework.field}[{role}].template.metadata.annotations[{key}]"
            yield f"{where}: has no effect on a pod template; set it on the job"


def _keys(holder: object) -> list[str]:
    """Return the annotations of Trainshed in the metadata of an object or of a template."""
    return [key for key in _inner(_inner(holder, "metadata"), "annotations") if str(key).startswith(PREFIX)]


def _inner(holder: object, key: str) -> Mapping[str, Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}

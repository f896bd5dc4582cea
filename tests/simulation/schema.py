"""A CRD's schema at work: what it does not know is dropped, what is missing is filled in, what is wrong is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .cel import compiled

#: A part of a schema, as it stands in a CRD.
Schema = Mapping[str, Any]
#: What JSON's types are called; a boolean is no number.
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "text or number": (str, int),
}


class Structure:
    """The schema of the objects of one kind."""

    def __init__(self, schema: Schema) -> None:
        fields = {name: part for name, part in schema["properties"].items() if name not in ("apiVersion", "metadata")}
        self._fields = {name: part for name, part in fields.items() if name != "kind"}
        self._whole = _with_rules(schema)

    def shape(self, document: dict[str, Any], only: str = "") -> dict[str, Any]:
        """The document without what the schema does not know and with its defaults; or this with one field only."""
        shaped = {key: value for key, value in document.items() if key in ("apiVersion", "kind", "metadata")}
        for name, part in self._fields.items():
            if only and name != only:
                if name in document:
                    shaped[name] = document[name]
            elif name in document:
                shaped[name] = _shaped(part, document[name])
            elif "default" in part:
                shaped[name] = _shaped(part, part["default"])
        return shaped

    def problems(self, document: dict[str, Any], before: dict[str, Any] | None = None, only: str = "") -> list[str]:
        """What is wrong with a document, or with one field of it, each in a sentence; `before` is what it was."""
        found: list[str] = []
        for name, part in self._fields.items():
            if name in document and only in ("", name):
                _check(part, document[name], name, found)
        if not found and not only:
            _judge(self._whole, document, before, "", found)
        return found


def _shaped(schema: Schema, value: Any) -> Any:
    if isinstance(value, dict):
        return _shaped_object(schema, value)
    if isinstance(value, list) and "items" in schema:
        return [_shaped(schema["items"], item) for item in value]
    return value


def _shaped_object(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    keep = schema.get("x-kubernetes-preserve-unknown-fields", False)
    shaped = {}
    for key, item in value.items():
        if key in properties:
            if item is not None or properties[key].get("nullable"):
                shaped[key] = _shaped(properties[key], item)
        elif others:
            shaped[key] = _shaped(others, item) if isinstance(others, Mapping) else item
        elif keep:
            shaped[key] = item
    for key, part in properties.items():
        if "default" in part and key not in shaped:
            shaped[key] = _shaped(part, part["default"])
    return shaped


def _check(schema: Schema, value: Any, path: str, found: list[str]) -> None:
    wanted = schema.get("type", "")
    if not _is(value, "text or number" if schema.get("x-kubernetes-int-or-string") else wanted):
        found.append(f'Invalid value: {path} in body must be of type {wanted}: "{value}"')
        return
    if "enum" in schema and value not in schema["enum"]:
        found.append(f'{path}: Unsupported value: "{value}"')
    if isinstance(value, dict):
        _check_object(schema, value, path, found)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check(schema.get("items", {}), item, f"{path}[{number}]", found)
    elif isinstance(value, str):
        _check_text(schema, value, path, found)
    elif isinstance(value, (int, float)):
        _check_number(schema, value, path, found)


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted in ("boolean", "")
    return not wanted or isinstance(value, TYPES[wanted])


def _check_object(schema: Schema, value: dict[str, Any], path: str, found: list[str]) -> None:
    found += [f"{path}.{name}: Required value" for name in schema.get("required", ()) if name not in value]
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        found.append(f"{path}: has {len(value)} properties")
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        part = properties.get(key, others)
        if isinstance(part, Mapping):
            _check(part, item, f"{path}.{key}", found)


def _check_text(schema: Schema, value: str, path: str, found: list[str]) -> None:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        found.append(f"{path}: is {len(value)} characters long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{path}: does not match {schema['pattern']}")
    if schema.get("format") == "date-time" and not re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$", value
    ):
        found.append(f"{path}: must be of type date-time")


def _check_number(schema: Schema, value: float, path: str, found: list[str]) -> None:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{path}: {value} is out of bounds")
    if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
        found.append(f"{path}: must be of type int32")


def _with_rules(schema: Schema) -> Schema:
    """The same schema, as far as there are rules in it: most of a pod's has none."""
    kept: dict[str, Any] = {}
    properties = {name: _with_rules(part) for name, part in schema.get("properties", {}).items()}
    properties = {name: part for name, part in properties.items() if part}
    if properties:
        kept["properties"] = properties
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping) and (part := _with_rules(others)):
        kept["additionalProperties"] = part
    if "x-kubernetes-validations" in schema:
        kept["x-kubernetes-validations"] = schema["x-kubernetes-validations"]
    return kept


def _judge(schema: Schema, value: Any, before: Any, path: str, found: list[str]) -> None:
    """Evaluate the rules on a value and below it; those that ask for what was before need something to have been."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"] and before is None:
            continue
        if not compiled(rule["rule"])({"self": value, "oldSelf": before}):
            found.append(f"{path}{rule.get('fieldPath', '')}: {rule.get('message', rule['rule'])}")
    if not isinstance(value, dict):
        return
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key, item in value.items():
        part = properties.get(key, others)
        if part:
            was = before.get(key) if isinstance(before, dict) else None
            _judge(part, item, was, f"{path}.{key}", found)

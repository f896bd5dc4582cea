"""Schemas of CRDs: pruning, defaulting, validation, and the subset of CEL that the project's rules use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

#: A compiled expression: its value for given variables.
Value = Callable[[dict[str, Any]], Any]
TOKEN = re.compile(
    r"\s*(?:(\d+)|([A-Za-z_]\w*)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(&&|\|\||\.\?|[=!<>]=|[-+<>!?:.,()\[\]]))"
)
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "in": lambda item, holder: item in holder,
}
CONSTANTS = {"true": True, "false": False, "null": None}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {"size": len, "string": str}
METHODS: dict[str, Callable[..., Any]] = {
    "max": max,
    "sum": sum,
    "lowerAscii": str.lower,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "startsWith": str.startswith,
    "orValue": lambda found, other: other if found is None else found,
}
#: Macros, which bind a variable to each item.
MACROS: dict[str, Callable[[list[Any]], Any]] = {
    "all": all,
    "exists": any,
    "exists_one": lambda found: sum(map(bool, found)) == 1,
    "map": list,
}


@cache
def compile_rule(text: str) -> Value:
    """Return a rule as a function."""
    return _Parser(text).whole()


class _Parser:
    """A recursive descent parser; the weakest operators are parsed first."""

    def __init__(self, text: str) -> None:
        self._tokens = [next(part for part in found if part) for found in TOKEN.findall(text)] + [""]
        self._at = 0

    def whole(self) -> Value:
        """Parse the whole text."""
        value = self._choice()
        assert self._peek() == "", f"not understood: {self._tokens[self._at :]}"
        return value

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self, wanted: str = "") -> str:
        token = self._tokens[self._at]
        assert not wanted or token == wanted, f"{wanted} expected, not {token}"
        self._at += 1
        return token

    def _took(self, *wanted: str) -> str:
        return self._take() if self._peek() in wanted else ""

    def _choice(self) -> Value:
        test = self._either()
        if not self._took("?"):
            return test
        yes = self._choice()
        self._take(":")
        no = self._choice()
        return lambda env: yes(env) if test(env) else no(env)

    def _either(self) -> Value:
        value = self._both()
        while self._took("||"):
            value = _either(value, self._both())
        return value

    def _both(self) -> Value:
        value = self._relation()
        while self._took("&&"):
            value = _both(value, self._relation())
        return value

    def _relation(self) -> Value:
        value = self._sum()
        while how := self._took(*COMPARE):
            value = _applied(COMPARE[how], value, self._sum())
        return value

    def _sum(self) -> Value:
        value = self._signed()
        while how := self._took("+", "-"):
            value = _applied(operator.add if how == "+" else operator.sub, value, self._signed())
        return value

    def _signed(self) -> Value:
        if self._took("!"):
            value = self._signed()
            return lambda env: not value(env)
        return self._steps(self._first())

    def _first(self) -> Value:
        token = self._take()
        if token == "(":
            value = self._choice()
            self._take(")")
            return value
        if token == "[":
            items = self._items("]")
            return lambda env: [item(env) for item in items]
        if token[0] in "'\"":
            text = token[1:-1]
            return lambda _env: text
        if token.isdecimal():
            number = int(token)
            return lambda _env: number
        return self._named(token)

    def _named(self, name: str) -> Value:
        if name in CONSTANTS:
            constant = CONSTANTS[name]
            return lambda _env: constant
        if not self._took("("):
            return lambda env: env[name]
        if name == "has":
            return self._has()
        (argument,) = self._items(")")
        function = FUNCTIONS[name]
        return lambda env: function(argument(env))

    def _has(self) -> Value:
        """Parse `has(a.b.c)`, which tests for the last field and does not read it."""
        end = self._at
        while self._tokens[end] != ")" or self._depth(end) != 0:
            end += 1
        field = self._tokens[end - 1]
        self._tokens[end - 2 : end] = []
        holder = self._choice()
        self._take(")")
        return lambda env: field in holder(env)

    def _depth(self, end: int) -> int:
        inside = self._tokens[self._at : end]
        return inside.count("(") - inside.count(")")

    def _steps(self, value: Value) -> Value:
        while how := self._took(".", ".?", "["):
            if how == "[":
                value = _applied(operator.getitem, value, self._choice())
                self._take("]")
                continue
            name = self._take()
            if how == ".?":
                value = _optional(value, name)
                continue
            value = self._method(value, name) if self._took("(") else _field(value, name)
        return value

    def _method(self, value: Value, name: str) -> Value:
        if name in MACROS:
            variable = self._take()
            self._take(",")
            body = self._choice()
            self._take(")")
            gather = MACROS[name]
            return lambda env: gather([body({**env, variable: item}) for item in value(env)])
        arguments = self._items(")")
        method = METHODS[name]
        return lambda env: method(value(env), *(argument(env) for argument in arguments))

    def _items(self, end: str) -> list[Value]:
        items = []
        while not self._took(end):
            items.append(self._choice())
            self._took(",")
        return items


def _either(one: Value, other: Value) -> Value:
    return lambda env: one(env) or other(env)


def _both(one: Value, other: Value) -> Value:
    return lambda env: one(env) and other(env)


def _applied(how: Callable[[Any, Any], Any], one: Value, other: Value) -> Value:
    return lambda env: how(one(env), other(env))


def _field(value: Value, name: str) -> Value:
    return lambda env: value(env)[name]


def _optional(value: Value, name: str) -> Value:
    """Return an optional field as its value, or None if there is none."""
    return lambda env: value(env).get(name)


#: A part of the schema in a CRD.
Schema = Mapping[str, Any]
#: The types of JSON; a boolean is no number.
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "text or number": (str, int),
}


class SchemaValidator:
    """The schema of one custom resource."""

    def __init__(self, schema: Schema) -> None:
        fields = {name: part for name, part in schema["properties"].items() if name not in ("apiVersion", "metadata")}
        self._fields = {name: part for name, part in fields.items() if name != "kind"}
        self._whole = _rules_only(schema)

    def prune_and_default(self, document: dict[str, Any], only: str = "") -> dict[str, Any]:
        """Return the document without unknown fields and with defaults; with `only`, this for one field."""
        pruned = {key: value for key, value in document.items() if key in ("apiVersion", "kind", "metadata")}
        for name, part in self._fields.items():
            if only and name != only:
                if name in document:
                    pruned[name] = document[name]
            elif name in document:
                pruned[name] = _pruned(part, document[name])
            elif "default" in part:
                pruned[name] = _pruned(part, part["default"])
        return pruned

    def errors(self, document: dict[str, Any], before: dict[str, Any] | None = None, only: str = "") -> list[str]:
        """Return the validation errors of a document, or of one field; `before` is the stored document."""
        found: list[str] = []
        for name, part in self._fields.items():
            if name in document and only in ("", name):
                _check(part, document[name], name, found)
        if not found and not only:
            _check_rules(self._whole, document, before, "", found)
        return found


def _pruned(schema: Schema, value: Any) -> Any:
    if isinstance(value, dict):
        return _pruned_object(schema, value)
    if isinstance(value, list) and "items" in schema:
        return [_pruned(schema["items"], item) for item in value]
    return value


def _pruned_object(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    keep = schema.get("x-kubernetes-preserve-unknown-fields", False)
    pruned = {}
    for key, item in value.items():
        if key in properties:
            if item is not None or properties[key].get("nullable"):
                pruned[key] = _pruned(properties[key], item)
        elif others:
            pruned[key] = _pruned(others, item) if isinstance(others, Mapping) else item
        elif keep:
            pruned[key] = item
    for key, part in properties.items():
        if "default" in part and key not in pruned:
            pruned[key] = _pruned(part, part["default"])
    return pruned


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


def _rules_only(schema: Schema) -> Schema:
    """Return the parts of a schema that contain rules: most of a pod template has none."""
    kept: dict[str, Any] = {}
    properties = {name: _rules_only(part) for name, part in schema.get("properties", {}).items()}
    properties = {name: part for name, part in properties.items() if part}
    if properties:
        kept["properties"] = properties
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping) and (part := _rules_only(others)):
        kept["additionalProperties"] = part
    if "x-kubernetes-validations" in schema:
        kept["x-kubernetes-validations"] = schema["x-kubernetes-validations"]
    return kept


def _check_rules(schema: Schema, value: Any, before: Any, path: str, found: list[str]) -> None:
    """Evaluate the rules on a value and below it; transition rules only if there is an old value."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"] and before is None:
            continue
        if not compile_rule(rule["rule"])({"self": value, "oldSelf": before}):
            found.append(f"{path}{rule.get('fieldPath', '')}: {rule.get('message', rule['rule'])}")
    if not isinstance(value, dict):
        return
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key, item in value.items():
        part = properties.get(key, others)
        if part:
            was = before.get(key) if isinstance(before, dict) else None
            _check_rules(part, item, was, f"{path}.{key}", found)

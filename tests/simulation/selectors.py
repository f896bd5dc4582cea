"""Label and field selectors, as the server reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .answers import bad

Document = dict[str, Any]
Matcher = Callable[[Document], bool]
PART = re.compile(r"[^,(]*(?:\([^)]*\))?[^,(]*")
SET = re.compile(r"(?P<key>\S+)\s+(?P<how>in|notin)\s+\((?P<values>[^)]*)\)")
EQUAL = re.compile(r"(?P<key>[^!=\s]+)\s*(?P<how>==|=|!=)\s*(?P<value>\S*)")


def everything(_document: Document) -> bool:
    """No selector."""
    return True


@lru_cache(maxsize=1000)
def matcher(labels: str, fields: str) -> Matcher:
    """What these selectors let through; raises `Refusal` if they make no sense."""
    tests = [_label(part.strip()) for part in PART.findall(labels) if part.strip()]
    tests += [_field(part.strip()) for part in fields.split(",") if part.strip()]
    if not tests:
        return everything
    return tests[0] if len(tests) == 1 else lambda document: all(test(document) for test in tests)


def _label(text: str) -> Matcher:
    found = SET.fullmatch(text)
    if found:
        key, how = found["key"], found["how"]
        values = frozenset(value.strip() for value in found["values"].split(","))
        return lambda document: (_labels(document).get(key) in values) is (how == "in")
    found = EQUAL.fullmatch(text)
    if found:
        key, value, equal = found["key"], found["value"], found["how"] != "!="
        return lambda document: (_labels(document).get(key) == value) is equal
    key, there = text.lstrip("!").strip(), not text.startswith("!")
    if not re.fullmatch(r"[\w./-]+", key):
        raise bad(f"unable to parse requirement: {text}")
    return lambda document: (key in _labels(document)) is there


def _labels(document: Document) -> Document:
    return document["metadata"].get("labels") or {}


def _field(text: str) -> Matcher:
    found = EQUAL.fullmatch(text)
    if not found:
        raise bad(f"invalid selector: '{text}'; can't understand '{text}'")
    path, value, equal = found["key"].split("."), found["value"], found["how"] != "!="

    def test(document: Document) -> bool:
        here: Any = document
        for step in path:
            here = here.get(step, "") if isinstance(here, dict) else ""
        return (str(here or "") == value) is equal

    return test

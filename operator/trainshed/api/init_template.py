"""v1's template of init containers for PyTorch workers: a YAML list with three variables that each job fills in."""

from __future__ import annotations

import re
from functools import lru_cache

import yaml

from .job import Document

#: v1's template variables. The language is Go's text/template; only variables and comments of it are supported.
WORDS = ("MasterAddr", "InitContainerImage", "MaxTries")
_ACTION = re.compile(r"(\s*\{\{-\s|\{\{)\s*(.*?)\s*(\s-\}\}\s*|\}\})", re.DOTALL)


class BadTemplate(ValueError):
    """The file is not a template that v1 would accept; the message says why."""


@lru_cache(maxsize=64)
def containers(text: str, values: tuple[str, str, str]) -> tuple[Document, ...]:
    """Return the init containers of the template `text`, with `values` for `WORDS`.

    Raises `BadTemplate`.
    """
    known = dict(zip(WORDS, values, strict=True))
    try:
        found = yaml.safe_load(_ACTION.sub(lambda action: _value(known, action[2]), text))
    except yaml.YAMLError as error:
        raise BadTemplate(f"not YAML: {error}") from error
    if not isinstance(found, list) or not all(isinstance(item, dict) and "name" in item for item in found):
        raise BadTemplate("not a list of containers, each with a name")
    return tuple(found)


def _value(known: dict[str, str], action: str) -> str:
    if action.startswith("/*"):
        return ""
    word = action.removeprefix(".")
    if word == action or word not in known:
        listed = ", ".join(f"{{{{.{word}}}}}" for word in WORDS)
        raise BadTemplate(f"{{{{{action}}}}} is not supported; the variables are {listed}")
    return known[word]

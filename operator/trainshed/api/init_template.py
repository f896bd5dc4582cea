"""v1's file of init containers for PyTorch workers: a list in YAML, with three words to be filled in for each job."""

from __future__ import annotations

import re
from functools import lru_cache

import yaml

from .job import Document

#: What stands in the place of each word of v1's (its template language is Go's, of which no more is understood).
WORDS = ("MasterAddr", "InitContainerImage", "MaxTries")
_ACTION = re.compile(r"(\s*\{\{-\s|\{\{)\s*(.*?)\s*(\s-\}\}\s*|\}\})", re.DOTALL)


class BadTemplate(ValueError):
    """The file is not what v1 would have understood; the text says why."""


@lru_cache(maxsize=64)
def containers(text: str, values: tuple[str, str, str]) -> tuple[Document, ...]:
    """The init containers that `text` describes, with these values in the place of `WORDS`; raises `BadTemplate`."""
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
        raise BadTemplate(f"{{{{{action}}}}} is not understood; there are {listed}")
    return known[word]

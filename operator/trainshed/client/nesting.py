"""Decodes documents without the parts that are nested too deeply."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
import orjson

T = TypeVar("T")
#: Levels that are kept; objects of Kubernetes have less than half as many.
MAX_DEPTH = 100
#: A string, or a bracket of an object or an array.
MARK = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]')


def decode_bounded(decoder: msgspec.json.Decoder[T], content: msgspec.Raw | bytes) -> T:
    """Decode the content, without the parts that are nested too deeply; raises `msgspec.DecodeError`."""
    try:
        found = decoder.decode(content)
        if isinstance(found, (dict, list)):  # Python 3.12 and newer decode thousands of levels; orjson writes 254
            orjson.dumps(found)
    except (RecursionError, orjson.JSONEncodeError):
        return decoder.decode(cut_nesting(bytes(content)))
    return found


def cut_nesting(content: bytes) -> bytes:
    """Return the content with null in place of each object and array that is nested too deeply."""
    kept, depth, done = [], 0, 0
    for mark in MARK.finditer(content):
        if mark[0] in b"{[":
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept += [content[done : mark.start()], b"null"]
                done = len(content)
        elif mark[0] in b"}]":
            depth -= 1
            if depth == MAX_DEPTH:
                done = mark.end()
    return b"".join((*kept, content[done:]))

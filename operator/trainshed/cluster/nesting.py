"""Decodes JSON documents that are nested too deeply for a decoder, without the parts that are too deep.

JSON decoders recurse, and Python limits the recursion. Users may nest fields deeper where the CRD has no schema, and
one such object would make the list of all objects of the kind undecodable.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
#: Levels that are kept; objects of Kubernetes have less than half as many.
DEEPEST = 100
#: A string, or a bracket of an object or an array.
MARK = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]')


def decode(decoder: msgspec.json.Decoder[T], content: msgspec.Raw | bytes) -> T:
    """Decode the content, without the parts that are nested too deeply; raises `msgspec.DecodeError`."""
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(shallow(bytes(content)))


def shallow(content: bytes) -> bytes:
    """Return the content with null in place of each object and array that is nested too deeply."""
    kept, depth, done = [], 0, 0
    for mark in MARK.finditer(content):
        if mark[0] in b"{[":
            depth += 1
            if depth == DEEPEST + 1:
                kept += [content[done : mark.start()], b"null"]
                done = len(content)
        elif mark[0] in b"}]":
            depth -= 1
            if depth == DEEPEST:
                done = mark.end()
    return b"".join((*kept, content[done:]))

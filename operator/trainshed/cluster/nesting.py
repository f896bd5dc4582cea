"""Documents that are nested so deeply that no decoder takes them: what is too deep is left out.

Decoders of JSON recurse, and Python bounds that. A user may nest more deeply what a CRD does not describe, and the list
of all objects of a kind cannot be decoded if one of them cannot.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
#: Levels that are kept: no document of Kubernetes has half as many.
DEEPEST = 100
#: A text, or where an object or a list begins or ends.
MARK = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]')


def decode(decoder: msgspec.json.Decoder[T], content: msgspec.Raw | bytes) -> T:
    """What the decoder makes of the content, without what is nested too deeply; raises `msgspec.DecodeError`."""
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(shallow(bytes(content)))


def shallow(content: bytes) -> bytes:
    """The content with null in the place of each object and list that is nested too deeply."""
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

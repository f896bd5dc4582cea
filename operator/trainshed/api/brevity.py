"""Truncation of texts to a number of bytes in JSON, so that the stored status has a bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import accumulate, takewhile

#: Marks the place where text was cut.
CUT = "…"
#: Go's JSON encoder, and so the API server, escapes these characters with six bytes each.
ESCAPED = "<>&\u2028\u2029"


def weight(value: object) -> int:
    """Return the size in bytes of a value as the API server's JSON, without white space."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escaped = ((mark, text.count(mark)) for mark in ESCAPED)
    return len(text.encode(errors="replace")) + sum(count * (6 - len(mark.encode())) for mark, count in escaped)


def head(text: str, most: int) -> str:
    """Return the text, or its beginning, in at most `most` bytes of JSON; the quotes do not count."""
    if _bytes(text) <= most:
        return text
    return text[: _fitting(text, most)] + CUT


def tail(text: str, most: int) -> str:
    """Return the text, or its end: the end of a traceback holds the error."""
    if _bytes(text) <= most:
        return text
    kept = _fitting(reversed(text), most)
    return CUT + text[len(text) - kept :]


def _bytes(text: str) -> int:
    return weight(text) - 2


def _fitting(text: Iterable[str], most: int) -> int:
    """Return the number of leading characters that fit together with the mark."""
    sizes = accumulate(_bytes(character) for character in text)
    return sum(1 for _ in takewhile(lambda size: size <= most - _bytes(CUT), sizes))

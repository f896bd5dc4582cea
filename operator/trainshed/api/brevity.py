"""Texts cut to a length, counted in bytes of JSON: what is stored stays small whatever it is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import accumulate, takewhile

#: Stands for what was left out.
CUT = "…"
#: Go writes these as six bytes each when it makes JSON, and the API server is written in Go.
ESCAPED = "<>&\u2028\u2029"


def weight(value: object) -> int:
    """Bytes that a value takes as JSON, without blanks, the way the API server writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escaped = ((mark, text.count(mark)) for mark in ESCAPED)
    return len(text.encode(errors="replace")) + sum(count * (6 - len(mark.encode())) for mark, count in escaped)


def head(text: str, most: int) -> str:
    """The text, or so much of its beginning that it takes `most` bytes of JSON, its quotes not counted."""
    if _bytes(text) <= most:
        return text
    return text[: _fitting(text, most)] + CUT


def tail(text: str, most: int) -> str:
    """The text, or so much of its end: that is where a traceback says what is wrong."""
    if _bytes(text) <= most:
        return text
    kept = _fitting(reversed(text), most)
    return CUT + text[len(text) - kept :]


def _bytes(text: str) -> int:
    return weight(text) - 2


def _fitting(text: Iterable[str], most: int) -> int:
    """How many characters, from the first on, leave room for the mark."""
    sizes = accumulate(_bytes(character) for character in text)
    return sum(1 for _ in takewhile(lambda size: size <= most - _bytes(CUT), sizes))

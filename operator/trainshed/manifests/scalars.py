"""The value of a scalar in YAML: the rules of go.yaml.in/yaml/v2, and of sigs.k8s.io/yaml for keys.

Plain scalars, and those with a tag of these types, are a null, a boolean or a number if they look like one. Some rules
are from YAML 1.1 (`y` is true, `017` is 15), others are not (`1:3` and dates are texts, `0o17` is 15).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from datetime import date
from decimal import Decimal

Scalar = str | int | float | bool | None

PREFIX = "tag:yaml.org,2002:"
STR, BOOL, INT, FLOAT, NULL = (f"{PREFIX}{name}" for name in ("str", "bool", "int", "float", "null"))
TIMESTAMP, BINARY, MERGE = (f"{PREFIX}{name}" for name in ("timestamp", "binary", "merge"))
#: The other tags have no meaning: their values are texts.
RESOLVED = (BOOL, INT, FLOAT, NULL, TIMESTAMP)

_WORDS: tuple[tuple[str, Scalar, str], ...] = (
    (BOOL, True, "y Y yes Yes YES true True TRUE on On ON"),
    (BOOL, False, "n N no No NO false False FALSE off Off OFF"),
    (NULL, None, "~ null Null NULL"),
    (FLOAT, math.nan, ".nan .NaN .NAN"),
    (FLOAT, math.inf, ".inf .Inf .INF +.inf +.Inf +.INF"),
    (FLOAT, -math.inf, "-.inf -.Inf -.INF"),
)
WORDS = {"": (NULL, None)} | {word: (tag, value) for tag, value, words in _WORDS for word in words.split()}

_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII)
#: A second sign is accepted in binary numbers.
_BINARY_INTEGER = re.compile(r"0b([+-]?[01]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_TIME = r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?"
_TIMESTAMP = re.compile(rf"{_DATE}(?:[Tt]{_TIME}(?:Z|[+-]([0-9]{{2}}):([0-9]{{2}}))| +{_TIME})?")
#: The least and the most that Go's int64 and uint64 hold; numbers beyond are read as float64, if decimal.
LEAST, MOST = -(2**63), 2**64 - 1
#: From this on, Go writes a float64 with an exponent in JSON, so that it is not read as an integer.
EXPONENT = 1e21
#: The digits of an integer of 64 bits that has neither prefix nor leading zero.
_DIGITS = 20


class NoScalar(ValueError):
    """A scalar contradicts its tag, or has no value in JSON; the message says why."""


def scalar(text: str, tag: str | None, *, plain: bool) -> Scalar:
    """Return the value of a scalar with a tag (None for none), which stands without quotes or not.

    Infinities and NaN are returned: JSON has none of them, but as keys they are texts. Raises `NoScalar`.
    """
    if tag == BINARY:
        return _bytes(text)
    if tag is None and not plain:
        return text
    if tag is not None and tag not in RESOLVED:
        return text
    found, value = _resolved(text)
    if tag in (None, found):
        return value
    if tag == TIMESTAMP and found == STR and _is_timestamp(text):
        return text
    if tag == FLOAT and found == INT and isinstance(value, int) and LEAST <= value <= 2**63 - 1:
        return float(value)
    raise NoScalar(f"{text!r} is no {str(tag).removeprefix(PREFIX)}")


def is_text(text: str) -> bool:
    """Return whether a text that stands without quotes is read as this text."""
    return _resolved(text)[0] == STR


def _resolved(text: str) -> tuple[str, Scalar]:
    """Return the tag and the value of a plain scalar."""
    if text in WORDS:
        return WORDS[text]
    if text[0] == ".":
        return _float(text, text)
    if text[0] not in "+-0123456789":
        return STR, text
    digits = text.replace("_", "")
    integer = _integer(digits)
    return _float(digits, text) if integer is None else (INT, integer)


def _integer(digits: str) -> int | None:
    found = _INTEGER.fullmatch(digits)
    if found:
        sign, *parts = found.groups()
        if len(parts[-1] or "") > _DIGITS:
            return None
        size = next(int(part, base) for part, base in zip(parts, (16, 2, 8, 10), strict=True) if part)
        value = -size if sign == "-" else size
        # Go reads an unsigned number only without a sign.
        return value if LEAST <= value <= (2**63 - 1 if sign else MOST) else None
    again = _BINARY_INTEGER.fullmatch(digits)
    value = int(again[1], 2) if again else MOST + 1
    return value if LEAST <= value <= 2**63 - 1 else None


def _float(digits: str, text: str) -> tuple[str, Scalar]:
    value = float(digits) if _FLOAT.fullmatch(digits) else math.inf
    return (STR, text) if math.isinf(value) else (FLOAT, value)


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        return False
    year, month, day, *rest = (int(part or 0) for part in found.groups())
    hour, minute, second = (max(pair) for pair in zip(rest[:3], rest[5:], strict=True))
    try:
        date(year or 4, month, day)  # Go knows a year 0, which is a leap year
    except ValueError:
        return False
    return hour < 24 and minute < 60 and second < 60 and rest[3] <= 24 and rest[4] < 60  # noqa: PLR2004 - of a clock


def _bytes(text: str) -> str:
    """Return decoded base64 as text, with U+FFFD for each byte that is not UTF-8, as Go writes it to JSON."""
    try:
        found = base64.b64decode(re.sub("[\r\n]", "", text), validate=True)
    except (binascii.Error, ValueError):
        raise NoScalar("the !!binary value is not base64") from None
    return re.sub("[\udc80-\udcff]", "\ufffd", found.decode("utf-8", "surrogateescape"))


def number(value: float) -> float:
    """Return a float as JSON carries it: Go writes 1.0 and 1e3 as the integers 1 and 1000, with the fewest digits."""
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < EXPONENT else value


def key(value: Scalar) -> str:
    """Return the text of a key: of booleans and numbers that of sigs.k8s.io/yaml. Raises `NoScalar` for null."""
    if isinstance(value, str):
        return value
    if value is None:
        raise NoScalar("a key must not be null")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        if value > 2**63 - 1:
            raise NoScalar(f"{value} is too large for a key")
        return str(value)
    return _short(value)


def _short(value: float) -> str:
    """Return the shortest text that a float of 32 bits has, in Go's format 'g'."""
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isnan(single):
        return ".nan"
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    texts = (f"{single:.{digits}e}" for digits in range(9))
    shortest = next(text for text in texts if struct.pack("f", float(text)) == struct.pack("f", single))
    mantissa, exponent = shortest.split("e")
    if -4 <= int(exponent) < 6:  # noqa: PLR2004 - Go's limits
        return f"{float(shortest):.{max(0, len(mantissa.lstrip('-').replace('.', '')) - 1 - int(exponent))}f}"
    return f"{mantissa}e{int(exponent):+03d}"

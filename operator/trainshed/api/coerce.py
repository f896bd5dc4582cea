"""Coerces values that others have written, to types and to a schema, and truncates text to a number of bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate, takewhile
from typing import Any

#: The smallest and the largest number of the format int32.
SMALLEST, LARGEST = -(2**31), 2**31 - 1
#: Marks the place where text was cut.
ELLIPSIS = "…"
#: Go's JSON encoder, and so the API server, escapes these characters with six bytes each.
ESCAPED = "<>&\u2028\u2029"
#: Text of which each character takes one byte.
PLAIN = re.compile(r"[ !#-%'-;=?-\[\]-~]*")
#: The most bytes that a character takes in JSON: those of an escape sequence.
MAX_CHARACTER_BYTES = 6


def json_size(value: object) -> int:
    """Return the size in bytes of a value as the API server's JSON, without white space."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escaped = ((mark, text.count(mark)) for mark in ESCAPED)
    return len(text.encode(errors="replace")) + sum(count * (6 - len(mark.encode())) for mark, count in escaped)


def truncate_end(text: str, most: int) -> str:
    """Return the text, or its beginning, in at most `most` bytes of JSON; the quotes do not count."""
    if len(text) * MAX_CHARACTER_BYTES <= most or text_size(text) <= most:
        return text
    return text[: _fitting(text, most)] + ELLIPSIS


def truncate_start(text: str, most: int) -> str:
    """Return the text, or its end: the end of a traceback holds the error."""
    if len(text) * MAX_CHARACTER_BYTES <= most or text_size(text) <= most:
        return text
    kept = _fitting(reversed(text), most)
    return ELLIPSIS + text[len(text) - kept :]


def text_size(text: str) -> int:
    """Return the size in bytes of a text as the API server's JSON, without the quotes."""
    return len(text) if PLAIN.fullmatch(text) else json_size(text) - 2


def _fitting(text: Iterable[str], most: int) -> int:
    """Return the number of leading characters that fit together with the mark."""
    sizes = accumulate(text_size(character) for character in text)
    return sum(1 for _ in takewhile(lambda size: size <= most - text_size(ELLIPSIS), sizes))


#: The range of accepted times. Any duration that a job may ask for can be added to a time in it without overflow.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


def parse_time(value: object) -> datetime | None:
    """Return the time, in UTC, or None."""
    try:
        return within_time_range(datetime.fromisoformat(value) if isinstance(value, str) else None)
    except ValueError:
        return None


def format_time(time: datetime) -> str:
    """Return a time as the API server writes it: RFC 3339 in UTC, to the second."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def within_time_range(found: datetime | None) -> datetime | None:
    """Return the time in UTC, or None if it is out of range; a time without a zone is in UTC."""
    if found is None:
        return None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return zoned.astimezone(UTC) if EARLIEST <= zoned <= LATEST else None


def parse_integer(value: object) -> int:
    """Return the value if it is a non-negative integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def parse_count(value: object) -> int:
    """Return the value if it is a non-negative integer, else 0; larger ones become the largest int32."""
    return min(parse_integer(value), LARGEST)


def parse_text(value: object) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_sequence(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def replica_specs(job: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the field of the spec, the role, and what is said of the role, of a job of any kind."""
    spec = as_mapping(job.get("spec"))
    for field in (field for field in spec if field.endswith("ReplicaSpecs")):
        yield from ((field, str(role), as_mapping(found)) for role, found in as_mapping(spec[field]).items())


def text_of(found: Mapping[str, Any], key: str) -> str:
    """Return a field if it is a string, else ""."""
    return parse_text(found.get(key))


def number_of(found: Mapping[str, Any], key: str) -> int | None:
    """Return a field as the nearest int32 if it is an integer, else None."""
    value = found.get(key)
    return int32(value) if isinstance(value, int) and not isinstance(value, bool) else None


def without_none(found: Mapping[str, object]) -> dict[str, Any]:
    """Return a document without its missing values; zeros and empty ones stay."""
    return {key: value for key, value in found.items() if value is not None}


def without_empty(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its zero and empty values."""
    return {key: value for key, value in found.items() if value not in (None, 0, "", [], {})}


def fitted(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with values changed or removed so that it matches the schema of an object.

    A number becomes the nearest int32. Characters that cannot be encoded are replaced.
    """
    return _object(document, schema) or {}


def int32(number: int) -> int:
    """Return the nearest int32."""
    return max(SMALLEST, min(number, LARGEST))


def _value(found: object, schema: Mapping[str, Any]) -> object:
    """Return the value as the schema accepts it, or None."""
    kind = schema["type"]
    if kind == "integer":
        return int32(int(found)) if isinstance(found, int) else None
    if kind == "number":
        return found if isinstance(found, float) else None
    if kind == "string":
        return _text(found, schema) if isinstance(found, str) else None
    if kind == "array":
        items = found if isinstance(found, (list, tuple)) else ()
        return [item for value in items if (item := _value(value, schema["items"])) is not None]
    return _object(found, schema) if isinstance(found, Mapping) else None


def _object(found: Mapping[Any, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an object as the schema accepts it, or None if a required field is missing."""
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    texts = {encodable(key): value for key, value in found.items() if isinstance(key, str)}
    parts = {key: _value(value, part) for key, value in texts.items() if (part := properties.get(key, others))}
    known = {key: value for key, value in parts.items() if value is not None}
    return known if known.keys() >= set(schema.get("required", ())) else None


def _text(found: str, schema: Mapping[str, Any]) -> str | None:
    if schema.get("format") != "date-time":
        return encodable(found)
    try:
        time = datetime.fromisoformat(found)
    except ValueError:
        return None
    return found if time.tzinfo else None


def encodable(text: str) -> str:
    """Return the text with a question mark for each unpaired surrogate, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode(errors="replace").decode()

"""Values from documents of unknown origin, coerced to the expected type.

A value of another type raises no error; it counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .status_schema import LARGEST

#: The range of accepted times. Any duration that a job may ask for can be added to a time in it without overflow.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


def time(value: object) -> datetime | None:
    """Return the time, in UTC, or None."""
    try:
        return within(datetime.fromisoformat(value) if isinstance(value, str) else None)
    except ValueError:
        return None


def within(found: datetime | None) -> datetime | None:
    """Return the time in UTC, or None if it is out of range; a time without a zone is in UTC."""
    if found is None:
        return None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return zoned.astimezone(UTC) if EARLIEST <= zoned <= LATEST else None


def integer(value: object) -> int:
    """Return the value if it is a non-negative integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def count(value: object) -> int:
    """Return the value if it is a non-negative integer, else 0; larger ones become the largest int32."""
    return min(integer(value), LARGEST)


def text(value: object) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []

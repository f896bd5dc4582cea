"""Pieces of a document that anybody may have written: each of the shape we expect, or nothing.

There is no error for what does not look right: who calls goes on as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .status_schema import LARGEST

#: No clock shows an earlier or a later time; any length that a job may ask for can be added to one between them.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


def time(value: object) -> datetime | None:
    """The time, in UTC, or None."""
    try:
        return within(datetime.fromisoformat(value) if isinstance(value, str) else None)
    except ValueError:
        return None


def within(found: datetime | None) -> datetime | None:
    """The time, in UTC, or None if no clock shows it; one without a zone is in UTC."""
    if found is None:
        return None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return zoned.astimezone(UTC) if EARLIEST <= zoned <= LATEST else None


def integer(value: object) -> int:
    """The number, if it is a whole one and not below 0, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def count(value: object) -> int:
    """The same, but no larger than any number of a status can be."""
    return min(integer(value), LARGEST)


def text(value: object) -> str:
    """The text, or an empty one."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    """The mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []

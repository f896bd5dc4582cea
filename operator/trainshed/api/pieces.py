"""Pieces of a document that anybody may have written: each of the shape we expect, or nothing.

There is no error for what does not look right: who calls goes on as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def time(value: object) -> datetime | None:
    """The time, in UTC, or None."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found and (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def integer(value: object) -> int:
    """The number, if it is a whole one and not below 0, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def mapping(value: object) -> Mapping[str, Any]:
    """The mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []

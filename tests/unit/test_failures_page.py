"""The page on failures agrees with the code: every reason with its class, and every field of the status."""

from __future__ import annotations

import re
from pathlib import Path

from trainshed.api import status_schema
from trainshed.plan import failures

PAGE = (Path(__file__).parents[2] / "docs" / "failures.md").read_text()
CELLS = r"^\|([^|]+)\|([^|]+)\|"


def rows(first: str) -> list[tuple[list[str], list[str]]]:
    """Return the texts in backticks in the first two cells of the table with this first heading."""
    table = PAGE.partition(f"| {first} |")[2].partition("\n\n")[0]
    return [tuple(re.findall(r"`([^`]+)`", cell) for cell in found) for found in re.findall(CELLS, table, re.MULTILINE)]


def test_every_reason_is_there_with_its_class():
    listed = {
        reason: classes for reasons, classes in rows("reason") for reason in reasons if not reason.startswith("OutOf")
    }
    assert listed == {reason: [kind] for reason, kind in failures.CLASSES.items()}
    assert f"| `{failures.OUT_OF}…`" in PAGE
    assert failures.failure_class("OutOfcpu") == failures.INFRASTRUCTURE


def test_every_class_is_there():
    kinds = (failures.APPLICATION, failures.INFRASTRUCTURE, failures.DISRUPTION, failures.CASCADING, failures.HANG)
    assert [name for names, _ in rows("class") for name in names] == list(kinds)


def test_every_field_is_there():
    fields = status_schema.STATUS["properties"]
    tables = re.findall(r"^\| field \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    names = [
        set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)))) for table in tables
    ]
    items = (set(fields[name]["items"]["properties"]) for name in ("recentRestarts", "waiting"))
    assert names == [set(fields["failure"]["properties"]), *items]

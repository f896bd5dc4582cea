"""The values of the chart: from the schema, which says everything of each, values.yaml and the table of the README."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from bed.places import ROOT

CHART = ROOT / "charts" / "trainshed"
SCHEMA, VALUES, README = CHART / "values.schema.json", CHART / "values.yaml", CHART / "README.md"
NOTE = "# Written by `make manifests` from values.schema.json; change it there.\n"
#: Between these lines of the README stands the table.
BEGIN, END = "<!-- values -->", "<!-- end of values -->"
WIDTH = 120


@dataclass(frozen=True)
class Value:
    """A value, or a group of values: where it is, and what its schema says."""

    path: tuple[str, ...]
    schema: dict[str, Any]

    @property
    def description(self) -> str:
        """What it is for, in a sentence or more."""
        return self.schema.get("description", "")

    @property
    def group(self) -> bool:
        """Whether there are values in it, and not one itself."""
        return "default" not in self.schema

    @cached_property
    def default(self) -> str:
        """Its default as YAML, on one line."""
        flow = yaml.safe_dump(self.schema["default"], default_flow_style=True, width=10_000, sort_keys=False)
        return flow.removesuffix("...\n").strip()


def values(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[Value]:
    """Each value and each group of them, groups first."""
    for name, inner in schema["properties"].items():
        value = Value((*path, name), inner)
        yield value
        if value.group:
            yield from values(inner, value.path)


def schema() -> dict[str, Any]:
    """The schema as it stands in the chart."""
    return json.loads(SCHEMA.read_text())


def values_file() -> str:
    """values.yaml: each value with its description above it."""
    lines = [NOTE]
    for value in values(schema()):
        indent = "  " * (len(value.path) - 1)
        prefix = f"{indent}# "
        if len(value.path) == 1:
            lines.append("")
        lines += textwrap.wrap(value.description, WIDTH, initial_indent=prefix, subsequent_indent=prefix)
        lines.append(f"{indent}{value.path[-1]}:{'' if value.group else f' {value.default}'}")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def readme() -> str:
    """The README with the table of all values in its place."""
    before, _, rest = README.read_text().partition(BEGIN)
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for value in values(schema()):
        if not value.group:
            told = value.description.replace("|", "\\|")
            rows.append(f"| `{'.'.join(value.path)}` | `{value.default}` | {told} |")
    return "\n".join([f"{before}{BEGIN}", *rows, f"{END}{rest.partition(END)[2]}"])

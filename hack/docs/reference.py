"""The tables of the API reference page, from the schemas and descriptions in the CRDs."""

from __future__ import annotations

from functools import cache
from typing import Any

from trainshed import crd
from trainshed.api.framework import Framework
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

KINDS = {framework.kind: framework for framework in FRAMEWORKS}
KINDS |= {f"{framework.kind}/{framework.version}": framework for framework in MPI_VERSIONS.values()}
#: Bounds that only say how a number is stored.
STORED = {0, 2**31 - 1}
#: The parts of the page that all kinds share, and the paths of their fields.
SHARED = {"run-policy": "spec.runPolicy", "status": "status"}


def fields(of: str) -> str:
    """Return a table of fields: of a part that all kinds share, or the other fields of the spec of a kind."""
    shared = [row for row in _rows(FRAMEWORKS[0]) if all(row in _rows(framework) for framework in FRAMEWORKS)]
    if of in SHARED:
        wanted = [row for row in shared if f"{row[0]}.".startswith(f"{SHARED[of]}.")]
    else:
        wanted = [row for row in _rows(KINDS[of]) if row not in shared]
    cells = ((f"`{path}`", *texts) for path, *texts in wanted)
    return "\n".join(("| field | type | |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in cells)))


@cache
def _rows(framework: Framework) -> list[tuple[str, str, str]]:
    """Return path, type and description of each field of a kind."""
    schema = crd.definition(framework)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return [(path, _type(part), part["description"]) for path, part in crd.fields(schema)]


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value else "empty" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("format") == "date-time":
        return "time"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    bounds = (schema.get("minimum"), schema.get("maximum"))
    shown = {bound for bound in bounds if bound is not None} - STORED
    return f"{schema['type']}, {bounds[0]} to {bounds[1]}" if shown else schema["type"]

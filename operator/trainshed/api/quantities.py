"""Kubernetes quantities, such as `500m` and `1Gi`: parsing, sums and the canonical form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_UP, Decimal
from typing import Any

from .coerce import as_mapping

BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
SMALL = {suffix: Decimal(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), 1)}
LARGE = {suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)}
FACTORS = {**BINARY, **SMALL, "": Decimal(1), **LARGE}
#: The characters of the longest text that is parsed.
MAX_LENGTH = 66
MAX_AMOUNT, SMALLEST_UNIT = Decimal(2**63 - 1), SMALL["n"]
NUMBER = r"([+-]?\d{1,30}(?:\.\d{0,30})?|[+-]?\.\d{1,30})"
FORM = re.compile(NUMBER + r"(?:([eE][+-]?\d{1,2})|([KMGTPE]i|[munkMGTPE])?)", re.ASCII)


def parse_quantity(text: object) -> Decimal | None:
    """Parse a quantity; return None if it is not one."""
    found = FORM.fullmatch(str(text)) if isinstance(text, (str, int, float)) and not isinstance(text, bool) else None
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return Decimal(number + (exponent or "")) * FACTORS[suffix or ""]


def requests(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests of a container; as in its pod, a resource that has only a limit is requested as well."""
    resources = as_mapping(container.get("resources"))
    return {**as_mapping(resources.get("limits")), **as_mapping(resources.get("requests"))}


def sum_quantities(amounts: Iterable[tuple[object, int]]) -> str:
    """Return the sum of (quantity, factor) pairs, in the suffix family of the first; invalid quantities are skipped."""
    known = [(str(text), amount * times) for text, times in amounts if (amount := parse_quantity(text)) is not None]
    first = known[0][0] if known else ""
    return format_quantity(sum((amount for _, amount in known), Decimal(0)), binary=first.endswith("i"))


def format_quantity(amount: Decimal, *, binary: bool = False) -> str:
    """Return the canonical form: the largest suffix that leaves a whole number."""
    kept = max(-MAX_AMOUNT, min(MAX_AMOUNT, amount)).quantize(SMALLEST_UNIT, ROUND_UP)
    if not kept:
        return "0"
    family = BINARY if binary and abs(kept) >= BINARY["Ki"] else LARGE
    suffixes = (*reversed(family.items()), ("", Decimal(1)), *SMALL.items())
    suffix, factor = next((suffix, factor) for suffix, factor in suffixes if kept % factor == 0)
    return f"{kept / factor:.0f}{suffix}"

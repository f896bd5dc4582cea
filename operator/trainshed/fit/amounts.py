"""Amounts of resources by name, in whole thousandths, so that sums over many pods are fast and exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from trainshed.api.coerce import as_mapping
from trainshed.api.quantities import BINARY, format_quantity, parse_quantity

#: Thousandths of each resource, such as 1500 of `cpu` for one and a half processors.
Amounts = Mapping[str, int]
UNIT = 1000
CPU, MEMORY, PODS = "cpu", "memory", "pods"
#: Resources that are counted in bytes, with their names in quotas, and the digits of an amount that is shown exactly.
BYTES, HUGE_PAGES, EXACT = ("memory", "storage"), "hugepages-", 5
TENTH = Decimal("0.1")
#: Names of resources that come first where amounts are listed: devices are what jobs wait for.
LAST = ("cpu", "memory", "ephemeral-storage", "pods")


@lru_cache(maxsize=4096)
def thousandths(quantity: object) -> int | None:
    """Return a quantity in thousandths, rounded up; None if it is not one."""
    amount = parse_quantity(quantity)
    return None if amount is None else int((amount * UNIT).to_integral_value(ROUND_CEILING))


def parsed(quantities: object) -> dict[str, int]:
    """Return the amounts of a field of the API, such as `requests`; what is no quantity is left out."""
    found = {
        name: thousandths(value)
        for name, value in as_mapping(quantities).items()
        if isinstance(value, (str, int, float))
    }
    return {name: amount for name, amount in found.items() if amount is not None}


def total(several: Iterable[Amounts]) -> dict[str, int]:
    """Return the sums."""
    found: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def most(first: Amounts, second: Amounts) -> dict[str, int]:
    """Return the larger amount of each resource."""
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in (*first, *second)}


def times(amounts: Amounts, count: int) -> dict[str, int]:
    """Return the amounts of so many."""
    return {name: amount * count for name, amount in amounts.items()}


def less(amounts: Amounts, taken: Amounts) -> dict[str, int]:
    """Return what is left of the amounts; a name that they lack is not added."""
    return {name: amount - taken.get(name, 0) for name, amount in amounts.items()}


def quantity(name: str, amount: int) -> str:
    """Return an amount exactly, as a quantity of the API."""
    return format_quantity(Decimal(amount) / UNIT, binary=_is_bytes(name))


def shown(name: str, amount: int) -> str:
    """Return an amount as it is read by people: many bytes with one decimal, rounded down as what is free must be."""
    exact = quantity(name, amount)
    if not _is_bytes(name) or len(exact) <= EXACT:
        return exact
    value = Decimal(amount) / UNIT
    suffix, factor = next(((s, f) for s, f in reversed(BINARY.items()) if abs(value) >= f), ("", Decimal(1)))
    return f"{(value / factor).quantize(TENTH, ROUND_FLOOR)}".removesuffix(".0") + suffix


def listed(amounts: Amounts) -> str:
    """Return amounts in one line: `8 nvidia.com/gpu, 4 cpu, 64Gi memory`."""
    names = sorted(amounts, key=lambda name: (LAST.index(name) + 1 if name in LAST else 0, name))
    return ", ".join(f"{shown(name, amounts[name])} {name}" for name in names)


def _is_bytes(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last.endswith(BYTES) or HUGE_PAGES in name

"""The downward API: what a container can learn about its pod's labels and its resources, by the kubelet's rules.

They are those of pkg/fieldpath, pkg/api/v1/resource and pkg/kubelet/kubelet_resources.go of Kubernetes 1.37.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

from trainshed.api.job import Document
from trainshed.api.quantities import SMALL, parse_quantity

#: The resources of which a container without a limit may use all that its node has.
OF_NODE = (CPU, MEMORY, STORAGE) = ("cpu", "memory", "ephemeral-storage")
#: The resources that can be referred to.
RESOURCE = re.compile(rf"(limits|requests)\.({'|'.join(OF_NODE)}|hugepages-.+)")
MILLI, WHOLE = SMALL["m"], Decimal(1)
#: What Go writes for the characters of a quoted text that have a short form.
SHORT = {ord(char): code for char, code in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
SPACE, DELETE, BASIC_PLANE = 0x20, 0x7F, 0x10000


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """This machine as a node: its name, its address as pods see it, and what it has of the resources in `OF_NODE`."""

    name: str
    address: str = ""
    allocatable: Mapping[str, Decimal] = field(default_factory=dict)


def allocatable(folder: Path) -> dict[str, Decimal]:
    """Return what this machine has for containers; the storage is that of the disk with this folder."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    amounts = (os.cpu_count() or 1, memory, shutil.disk_usage(folder).total)
    return dict(zip(OF_NODE, map(Decimal, amounts), strict=True))


def resource_value(container: Document, selector: Document, of_node: Mapping[str, Decimal]) -> str | None:
    """Return the resource that a resourceFieldRef means, in units of its divisor, rounded up; None if there is none.

    `of_node` is what a container without a limit may use. A container that requests nothing requests its limit.
    """
    found = RESOURCE.fullmatch(str(selector.get("resource")))
    if found is None:
        return None
    part, name = found.groups()
    amount = _amount(container, part, name)
    if not amount and part == "requests" and name not in (_part(container, "requests")):
        amount = _amount(container, "limits", name)
    elif not amount and part == "limits":
        amount = of_node.get(name, amount)
    unit = MILLI if name == CPU else WHOLE
    divisor = parse_quantity(selector.get("divisor")) or WHOLE
    # The kubelet divides floating-point numbers of whole units.
    return str(math.ceil(_units(amount, unit) / _units(divisor, unit)))


def _part(container: Document, part: str) -> Mapping[str, object]:
    return (container.get("resources") or {}).get(part) or {}


def _amount(container: Document, part: str, name: str) -> Decimal:
    return parse_quantity(_part(container, part).get(name)) or Decimal(0)


def _units(amount: Decimal, unit: Decimal) -> float:
    return float((amount / unit).to_integral_value(ROUND_CEILING))


def of_pod(spec: Document, of_node: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return what a container without a limit may use: what the pod may, and otherwise what the node has."""
    limits = {name: parse_quantity(_part(spec, "limits").get(name)) for name in (CPU, MEMORY)}
    return {**of_node, **{name: amount for name, amount in limits.items() if amount}}


def limits(container: Document, spec: Document) -> dict[str, str]:
    """Return the limits of a container by resource; one without limits of CPU and memory has those of its whole pod."""
    own = {name: str(amount) for name, amount in _part(container, "limits").items()}
    without = [name for name in of_pod(spec, {}) if not _amount(container, "limits", name)]
    return own | {name: str(_part(spec, "limits")[name]) for name in without}


def as_lines(entries: Mapping[str, object]) -> str:
    """Return labels or annotations in the form of a file of the downward API."""
    return "\n".join(f"{key}={quoted(str(entries[key]))}" for key in sorted(entries, key=str.encode))


def quoted(text: str) -> str:
    """Return a text in quotes as Go's %q writes it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    number = ord(char)
    if number in SHORT:
        return f"\\{SHORT[number]}"
    if char.isprintable():
        return char
    if number < SPACE or number == DELETE:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < BASIC_PLANE else f"\\U{number:08x}"

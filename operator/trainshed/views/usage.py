"""The rows of `trainshed top`: what each replica requests, its limits, and what it uses of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.api.quantities import parse_quantity, requests, sum_quantities

from .rows import MOST_TEXT, listed, name_of

COLUMNS = (
    *("REPLICA", "NODE", "STATUS", "CPU", "CPU REQUEST", "CPU LIMIT"),
    *("MEMORY", "MEMORY REQUEST", "MEMORY LIMIT", "DEVICES"),
)
CPU, MEMORY = "cpu", "memory"
UNKNOWN, NONE, TOTAL = "<unknown>", "<none>", "total"
MEBIBYTE = Decimal(1024) ** 2
Usage = Mapping[str, Decimal | None]


def rows(job: str, pods: Sequence[Document], metrics: Iterable[Document]) -> list[tuple[str, ...]]:
    """Return a row for each pod by the names of replicas, and the sums if there are several.

    `metrics` are the PodMetrics of metrics.k8s.io; a pod that has none, such as one that does not run, has no usage.
    """
    used = {name_of(item): _usage(item) for item in metrics}
    found = [_row(job, pod, used.get(name_of(pod), {})) for pod in sorted(pods, key=_order)]
    if len(pods) > 1:
        whole = [container for pod in pods for container in _containers(pod)]
        known = [used.get(name_of(pod), {}) for pod in pods]
        sums = {name: _sum(usage.get(name) for usage in known) for name in (CPU, MEMORY)}
        found.append((TOTAL, "", "", *_amounts(whole, sums)))
    return [tuple(one_line(cell, MOST_TEXT) for cell in row) for row in found]


def _row(job: str, pod: Document, used: Usage) -> tuple[str, ...]:
    node = parse_text(as_mapping(pod.get("spec")).get("nodeName")) or NONE
    phase = parse_text(as_mapping(pod.get("status")).get("phase"))
    return (name_of(pod).removeprefix(f"{job}-"), node, phase, *_amounts(_containers(pod), used))


def _amounts(containers: Sequence[Document], used: Usage) -> tuple[str, ...]:
    wanted = [requests(container) for container in containers]
    limits = [as_mapping(as_mapping(container.get("resources")).get("limits")) for container in containers]
    found: dict[str, list[tuple[object, int]]] = defaultdict(list)
    for name, amount in (pair for resources in wanted for pair in resources.items() if "/" in pair[0]):
        found[name].append((amount, 1))
    devices = [f"{sum_quantities(found[name])} {name}" for name in sorted(found)]
    return (
        _cpu(used.get(CPU)) or UNKNOWN,
        _cpu(_together(wanted, CPU)) or NONE,
        _cpu(_together(limits, CPU)) or NONE,
        _memory(used.get(MEMORY)) or UNKNOWN,
        _memory(_together(wanted, MEMORY)) or NONE,
        _memory(_together(limits, MEMORY)) or NONE,
        listed(devices) or NONE,
    )


def _together(amounts: Iterable[Document], name: str) -> Decimal | None:
    return _sum(parse_quantity(resources.get(name)) for resources in amounts)


def _sum(amounts: Iterable[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if known else None


def _cpu(amount: Decimal | None) -> str:
    """Return processors in thousandths, as `kubectl top` shows them."""
    return "" if amount is None else f"{amount * 1000:.0f}m"


def _memory(amount: Decimal | None) -> str:
    """Return bytes in MiB, as `kubectl top` shows them."""
    return "" if amount is None else f"{amount / MEBIBYTE:.0f}Mi"


def _usage(metrics: Document) -> Usage:
    """Return what the containers of a pod use together."""
    used = [as_mapping(as_mapping(item).get("usage")) for item in as_sequence(metrics.get("containers"))]
    return {name: _sum(parse_quantity(item.get(name)) for item in used) for name in (CPU, MEMORY)}


def _order(pod: Document) -> tuple[str, int, str]:
    """Return what sorts pods by role and index: worker-2 comes before worker-10."""
    role, _, index = name_of(pod).rpartition("-")
    return role, int(index) if index.isdecimal() else 0, name_of(pod)


def _containers(pod: Document) -> list[Document]:
    return [dict(as_mapping(item)) for item in as_sequence(as_mapping(pod.get("spec")).get("containers"))]

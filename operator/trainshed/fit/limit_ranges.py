"""What LimitRanges give to the containers of a pod, and what they refuse.

The rules are those of Kubernetes' admission plug-in LimitRanger (k8s.io/kubernetes/plugin/pkg/admission/limitranger).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document

from .amounts import UNIT, Amounts, parsed, shown
from .assessment import Assessment, Fit
from .demands import RoleDemand, container_amounts, containers, pod_amounts

PART = "Limits"
CONTAINER, POD = "Container", "Pod"


class Bounds(msgspec.Struct, frozen=True):
    """One item of a LimitRange, of containers or of pods; `ratio` is in thousandths as the amounts are."""

    range: str
    type: str
    least: Mapping[str, int]
    most: Mapping[str, int]
    ratio: Mapping[str, int]
    requests: Mapping[str, Any]
    limits: Mapping[str, Any]


def bounds(documents: Sequence[Document]) -> list[Bounds]:
    """Return the items of LimitRanges about containers and pods."""
    found = [
        _bounds(parse_text(as_mapping(document.get("metadata")).get("name")), as_mapping(item))
        for document in documents
        for item in as_sequence(as_mapping(document.get("spec")).get("limits"))
    ]
    return [item for item in found if item.type in (CONTAINER, POD)]


def _bounds(name: str, item: Document) -> Bounds:
    least, most, ratio = (parsed(item.get(field)) for field in ("min", "max", "maxLimitRequestRatio"))
    requests, limits = as_mapping(item.get("defaultRequest")), as_mapping(item.get("default"))
    return Bounds(name, parse_text(item.get("type")), least, most, ratio, requests, limits)


def defaulted(spec: Document, limits: Sequence[Bounds]) -> dict[str, Any]:
    """Return the spec of a pod whose containers have the default requests and limits where they have none."""
    given = [item for item in limits if item.type == CONTAINER and (item.requests or item.limits)]
    found = dict(spec)
    for part in ("initContainers", "containers"):
        if part in spec:
            found[part] = [_with_defaults(as_mapping(item), given) for item in as_sequence(spec.get(part))]
    return found


def _with_defaults(container: Document, given: Sequence[Bounds]) -> dict[str, Any]:
    own = as_mapping(container.get("resources"))
    requests = {**as_mapping(own.get("limits")), **as_mapping(own.get("requests"))}
    limits = dict(as_mapping(own.get("limits")))
    for item in given:
        requests = {**item.requests, **requests}
        limits = {**item.limits, **limits}
    return {**container, "resources": {**own, "requests": requests, "limits": limits}} if given else dict(container)


def assess(limits: Sequence[Bounds], demand: RoleDemand) -> Iterator[Assessment]:
    """Yield what LimitRanges refuse in the pods of a role, whose spec has the defaults already."""
    if not demand.count:
        return
    for container in containers(demand.spec):
        name = f"container {parse_text(container.get('name'))} of {demand.role}"
        asked, most = container_amounts(container, "requests"), container_amounts(container, "limits")
        yield from _inverted(name, asked, most, limits)
        for item in limits:
            if item.type == CONTAINER:
                yield from _refused(item, name, asked, most)
    for item in limits:
        if item.type == POD:
            sums = (pod_amounts(demand.spec, "requests"), pod_amounts(demand.spec, "limits"))
            yield from _refused(item, f"the pod of {demand.role}", *sums)


def _inverted(name: str, asked: Amounts, most: Amounts, limits: Sequence[Bounds]) -> Iterator[Assessment]:
    """Yield requests above a limit that only the default of a LimitRange gives."""
    for item in limits:
        for resource in item.limits:
            if asked.get(resource, 0) > most.get(resource, asked.get(resource, 0)):
                text = (
                    f"{name} requests {shown(resource, asked[resource])} {resource}, more than its limit of "
                    f"{shown(resource, most[resource])}, the default of LimitRange {item.range}: set a limit"
                )
                yield Assessment(Fit.REFUSED, PART, text)


def _refused(item: Bounds, name: str, asked: Amounts, limits: Amounts) -> Iterator[Assessment]:
    for resource, least in item.least.items():
        yield from _too_little(item, name, resource, least, ("requests", asked.get(resource)))
        if resource in limits:
            yield from _too_little(item, name, resource, least, ("limit", limits[resource]))
    for resource, most in item.most.items():
        if what := _too_much(resource, most, asked.get(resource, 0), limits.get(resource)):
            text = f"{name} {what}, and LimitRange {item.range} permits at most {shown(resource, most)}"
            yield Assessment(Fit.REFUSED, PART, text)
    for resource, ratio in item.ratio.items():
        yield from _out_of_ratio(item, name, resource, ratio, (asked.get(resource), limits.get(resource)))


def _too_much(resource: str, most: int, asked: int, limit: int | None) -> str:
    """Return which amount is too much; the limit of a pod may be less than what it requests."""
    if limit is None:
        return f"has no limit of {resource}"
    if limit > most:
        return f"has a limit of {shown(resource, limit)} {resource}"
    return f"requests {shown(resource, asked)} {resource}" if asked > most else ""


def _too_little(
    item: Bounds, name: str, resource: str, least: int, has: tuple[str, int | None]
) -> Iterator[Assessment]:
    field, amount = has
    if amount is not None and amount >= least:
        return
    what = f"no {resource}" if amount is None else f"{shown(resource, amount)} {resource}"
    verb = "requests" if field == "requests" else "is limited to"
    text = f"{name} {verb} {what}, and LimitRange {item.range} demands at least {shown(resource, least)}"
    yield Assessment(Fit.REFUSED, PART, text)


def _out_of_ratio(
    item: Bounds, name: str, resource: str, ratio: int, has: tuple[int | None, int | None]
) -> Iterator[Assessment]:
    """Yield a limit that is too many times the request; both must be there, as the plug-in demands them."""
    request, limit = has
    if request and limit is not None and Decimal(limit) / request <= Decimal(ratio) / UNIT:
        return
    most = shown("ratio", ratio)
    text = (
        f"the limit of {resource} of {name} is more than {most} times its request, or one is missing: "
        f"LimitRange {item.range} permits at most {most} times"
    )
    yield Assessment(Fit.REFUSED, PART, text)

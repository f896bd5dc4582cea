"""Whether ResourceQuotas have room for a job, and what they demand of its pods.

The rules are those of Kubernetes' evaluators (k8s.io/kubernetes/pkg/quota/v1/evaluator/core).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document

from .amounts import HUGE_PAGES, PODS, UNIT, Amounts, parsed, shown, times, total
from .assessment import Assessment, Fit
from .demands import OF_PODS, PARTS, RoleDemand, container_amounts, containers, is_best_effort, pod_amounts
from .node_selection import expression_matches

PART = "Quota"
#: A quota that names one of these demands it of each container of a pod.
DEMANDED = tuple(f"{prefix}{name}" for name in ("cpu", "memory") for prefix in ("", "requests.", "limits."))
#: The resources that a quota names with and without `requests.`, and those that it names with `limits.`.
NATIVE = ("cpu", "memory", "ephemeral-storage")
PRIORITY = "PriorityClass"
#: What a whole quota permits, at the end of a refusal of the API server.
LIMITED = re.compile(r"limited: ([^; ]+)")


class Quota(msgspec.Struct, frozen=True):
    """A ResourceQuota: its name, the amounts that are permitted and used, and the expressions of its scopes."""

    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]
    scopes: tuple[Document, ...] = ()


def quota(document: Document) -> Quota:
    """Return a ResourceQuota as admission reads it: the permitted amounts are those of the status, if there are any."""
    spec, status = as_mapping(document.get("spec")), as_mapping(document.get("status"))
    selected = as_sequence(as_mapping(spec.get("scopeSelector")).get("matchExpressions"))
    names = ({"scopeName": name, "operator": "Exists"} for name in as_sequence(spec.get("scopes")))
    name = parse_text(as_mapping(document.get("metadata")).get("name"))
    hard = parsed(status.get("hard")) or parsed(spec.get("hard"))
    return Quota(name, hard, parsed(status.get("used")), (*map(as_mapping, selected), *names))


def counts_pod(limit: Quota, spec: Document) -> bool:
    """Return whether a pod is in all scopes of a quota."""
    return all(_is_in(scope, spec) for scope in limit.scopes)


def _is_in(scope: Document, spec: Document) -> bool:
    name = scope.get("scopeName")
    if name == PRIORITY:
        own = parse_text(spec.get("priorityClassName"))
        return expression_matches({**scope, "key": PRIORITY}, {PRIORITY: own} if own else {})
    ends = spec.get("activeDeadlineSeconds") is not None
    known = {
        "Terminating": lambda: ends,
        "NotTerminating": lambda: not ends,
        "BestEffort": lambda: is_best_effort(spec),
        "NotBestEffort": lambda: not is_best_effort(spec),
        "CrossNamespacePodAffinity": lambda: any(_crosses(term) for term in _affinity_terms(spec)),
    }
    return name in known and known[name]()


def _affinity_terms(spec: Document) -> Iterator[Document]:
    for kind in ("podAffinity", "podAntiAffinity"):
        found = as_mapping(as_mapping(spec.get("affinity")).get(kind))
        yield from map(as_mapping, as_sequence(found.get("requiredDuringSchedulingIgnoredDuringExecution")))
        weighted = map(as_mapping, as_sequence(found.get("preferredDuringSchedulingIgnoredDuringExecution")))
        yield from (as_mapping(item.get("podAffinityTerm")) for item in weighted)


def _crosses(term: Document) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def pod_charge(spec: Document) -> dict[str, int]:
    """Return what a pod counts in quotas, by the names that they use."""
    found = {PODS: UNIT, "count/pods": UNIT}
    for name, amount in pod_amounts(spec, "requests").items():
        found[f"requests.{name}"] = amount
        if name in NATIVE or name.startswith(HUGE_PAGES):
            found[name] = amount
    limits = pod_amounts(spec, "limits")
    return found | {f"limits.{name}": limits[name] for name in NATIVE if name in limits}


def assess(
    quotas: Sequence[Quota], demands: Sequence[RoleDemand], objects: Mapping[str, int]
) -> tuple[list[Assessment], list[Quota]]:
    """Return what each quota says to a job, and the quotas with what is used once it exists.

    `objects` are the numbers of other objects that would be made, by the names of quotas: `services`, and
    `count/pytorchjobs.kubeflow.org`.
    """
    found, after = list[Assessment](), list[Quota]()
    for limit in quotas:
        counted = [demand for demand in demands if demand.count and counts_pod(limit, demand.spec)]
        demanded = [text for demand in counted if (text := _demanded(limit, demand))]
        found += [Assessment(Fit.REFUSED, PART, text) for text in demanded]
        others = {} if limit.scopes else times(objects, UNIT)
        charge = total((others, *(times(pod_charge(demand.spec), demand.count) for demand in counted)))
        needed = {name: amount for name, amount in charge.items() if amount and name in limit.hard}
        found += [Assessment(Fit.LACKING, PART, text) for text in _exceeded(limit, needed)]
        after.append(replace(limit, used=total((limit.used, needed))))
        if needed and not demanded and not any(_exceeded(limit, needed)):
            found.append(Assessment(Fit.OK, PART, f"ResourceQuota {limit.name} has room: {_rest(limit, needed)}"))
    return found, after


def _exceeded(limit: Quota, needed: Amounts) -> Iterator[str]:
    for name, amount in sorted(needed.items()):
        hard, used = limit.hard[name], limit.used.get(name, 0)
        if used + amount <= hard:
            continue
        missing = shown(name, used + amount - hard)
        yield (
            f"ResourceQuota {limit.name} lacks {missing} {name}: the job needs {shown(name, amount)}, "
            f"and {shown(name, used)} of {shown(name, hard)} are used"
        )


def _rest(limit: Quota, needed: Amounts) -> str:
    parts = (
        f"{shown(name, limit.used.get(name, 0) + amount)} of {shown(name, limit.hard[name])} {name}"
        for name, amount in sorted(needed.items())
    )
    return f"then {', '.join(parts)} are used"


def _demanded(limit: Quota, demand: RoleDemand) -> str:
    """Return what a quota demands of each container and one of them lacks; empty if there is nothing."""
    if any(name in OF_PODS for field in PARTS for name in container_amounts(demand.spec, field)):
        return ""
    for container in containers(demand.spec):
        lacking = [name for name in DEMANDED if name in limit.hard and not _has(name, container)]
        if lacking:
            own = parse_text(container.get("name"))
            return (
                f"ResourceQuota {limit.name} demands {', '.join(lacking)} of each container, "
                f"and container {own} of {demand.role} has none: the API server refuses the pods"
            )
    return ""


def _has(name: str, container: Document) -> bool:
    field, resource = _field(name)
    return resource in container_amounts(container, field)


def _field(name: str) -> tuple[str, str]:
    field, _, resource = name.rpartition(".")
    return field or "requests", resource


def never_fits(message: str, asked: Amounts) -> str:
    """Return what a job asks for of which a whole quota has less: `300Mi of the 256Mi memory`; empty if of nothing.

    The message is the API server's refusal of a pod, which ends with `limited: ` and what the quota permits. `asked`
    are the amounts of all pods of the job, as `pod_charge` names them.
    """
    if not (found := LIMITED.search(message)):
        return ""
    permitted = parsed(dict(pair.split("=", 1) for pair in found[1].split(",") if "=" in pair))
    for name, most in permitted.items():
        if asked.get(name, 0) > most:
            return f"{shown(name, asked[name])} of the {shown(name, most)} {name}"
    return ""

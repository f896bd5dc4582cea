"""Creates, updates and deletes the other objects of a job: ConfigMaps, RBAC, autoscalers, PodGroups."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_UP, Decimal
from typing import Any

from trainshed.api.actions import Action, CreateDependent, DeleteDependent, UpdateDependent
from trainshed.api.framework import Framework
from trainshed.api.job import Job
from trainshed.api.objects import Dependent, DesiredDependent, Phase

from . import build, gang, names
from .facts import Facts

#: An annotation: a digest of the content written last, so that fields that are no longer desired are noticed, too.
DIGEST = "trainshed.dev/digest"


def wishes(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return all objects that the job should own while it has pods."""
    own = facts.framework.hooks.dependents(facts.job, facts.snapshot.site, _running(facts))
    return (*gang.wishes(facts), *own)


def align(facts: Facts) -> tuple[Action, ...]:
    """Create missing objects, update changed ones, and delete temporary ones that are no longer desired."""
    there = {(dependent.resource, dependent.name): dependent for dependent in facts.snapshot.dependents}
    wanted = wishes(facts)
    wished = {(wish.resource, wish.name) for wish in wanted}
    made = (_create_or_update(facts, wish, there.get((wish.resource, wish.name))) for wish in wanted)
    stray = (dependent for key, dependent in there.items() if key not in wished and dependent.resource.passing)
    return (*(action for action in made if action), *_delete(stray))


def dismiss(facts: Facts) -> tuple[Action, ...]:
    """Delete temporary objects: the job has no pods any more, or soon will not."""
    return _delete(dependent for dependent in facts.snapshot.dependents if dependent.resource.passing)


def _create_or_update(facts: Facts, wish: DesiredDependent, found: Dependent | None) -> Action | None:
    if found is None:
        if wish.shared and not facts.missing:
            return None  # may belong to another owner; its existence is checked when pods are created
        return CreateDependent(wish.resource, wish.name, body(facts.framework, facts.job, wish), wish.shared)
    if found.deleting or not _differs(facts, wish, found):
        return None
    return UpdateDependent(wish.resource, wish.name, _patch(facts, wish, found))


def body(framework: Framework, job: Job, wish: DesiredDependent) -> dict[str, Any]:
    """Return the body of a dependent for its creation."""
    metadata = _metadata(framework, job, wish) | {"name": wish.name, "ownerReferences": [build.owner(job)]}
    head = {"apiVersion": wish.resource.api_version, "kind": wish.resource.kind}
    return {**head, "metadata": metadata, **wish.content}


def _metadata(framework: Framework, job: Job, wish: DesiredDependent) -> dict[str, Any]:
    labels = dict(wish.labels) | names.job_labels(framework, job)
    return {"labels": labels, "annotations": dict(wish.annotations) | {DIGEST: _digest(wish)}}


def _digest(wish: DesiredDependent) -> str:
    text = json.dumps((wish.content, wish.labels, wish.annotations), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differs(facts: Facts, wish: DesiredDependent, found: Dependent) -> bool:
    wanted = {"metadata": _metadata(facts.framework, facts.job, wish), **wish.content}
    return not covers(found.document, wanted)


def covers(actual: object, wanted: object) -> bool:
    """Return whether an object has all desired fields, with quantities in any notation and defaults added.

    The server may leave out fields that are empty, zero or false.
    """
    if actual is None:
        return not wanted
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(covers(actual.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same_length = isinstance(actual, list) and len(actual) == len(wanted)
        return same_length and all(map(covers, actual, wanted))  # type: ignore[call-overload]
    amount = parse_quantity(wanted)
    return actual == wanted or (amount is not None and amount == parse_quantity(actual))


def _patch(facts: Facts, wish: DesiredDependent, found: Dependent) -> dict[str, Any]:
    content = {key: _merged(found.document.get(key), value) for key, value in wish.content.items()}
    identity = {"uid": found.uid, "resourceVersion": found.version}
    return {"metadata": _metadata(facts.framework, facts.job, wish) | identity, **content}


def _merged(actual: object, wanted: object) -> object:
    """Return the merge patch; fields that exist and are not desired are removed by null."""
    if not (isinstance(actual, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    kept = {key: _merged(actual.get(key), value) for key, value in wanted.items()}
    return dict.fromkeys(actual.keys() - wanted.keys()) | kept


def _delete(dependents: Iterable[Dependent]) -> tuple[DeleteDependent, ...]:
    return tuple(
        DeleteDependent(dependent.resource, dependent.name, dependent.uid)
        for dependent in dependents
        if not dependent.deleting
    )


def _running(facts: Facts) -> tuple[str, ...]:
    """Return the names of the running pods of the current attempt."""
    found = (pod for pod in facts.current.values() if pod.phase is Phase.RUNNING and not pod.deleting)
    return tuple(sorted(pod.name for pod in found))


BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
SMALL = {suffix: Decimal(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), 1)}
LARGE = {suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)}
FACTORS = {**BINARY, **SMALL, "": Decimal(1), **LARGE}
MOST, FINEST = Decimal(2**63 - 1), SMALL["n"]
NUMBER = r"([+-]?\d{1,30}(?:\.\d{0,30})?|[+-]?\.\d{1,30})"
FORM = re.compile(NUMBER + r"(?:([eE][+-]?\d{1,2})|([KMGTPE]i|[munkMGTPE])?)", re.ASCII)


def parse_quantity(text: object) -> Decimal | None:
    """Parse a quantity; return None if it is not one."""
    found = FORM.fullmatch(str(text)) if isinstance(text, (str, int, float)) and not isinstance(text, bool) else None
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return Decimal(number + (exponent or "")) * FACTORS[suffix or ""]


def sum_quantities(amounts: Iterable[tuple[object, int]]) -> str:
    """Return the sum of (quantity, factor) pairs, in the suffix family of the first; invalid quantities are skipped."""
    known = [(str(text), amount * times) for text, times in amounts if (amount := parse_quantity(text)) is not None]
    first = known[0][0] if known else ""
    return format_quantity(sum((amount for _, amount in known), Decimal(0)), binary=first.endswith("i"))


def format_quantity(amount: Decimal, *, binary: bool = False) -> str:
    """Return the canonical form: the largest suffix that leaves a whole number."""
    kept = max(-MOST, min(MOST, amount)).quantize(FINEST, ROUND_UP)
    if not kept:
        return "0"
    family = BINARY if binary and abs(kept) >= BINARY["Ki"] else LARGE
    suffixes = (*reversed(family.items()), ("", Decimal(1)), *SMALL.items())
    suffix, factor = next((suffix, factor) for suffix, factor in suffixes if kept % factor == 0)
    return f"{kept / factor:.0f}{suffix}"

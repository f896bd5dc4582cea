"""The other objects that a job owns, such as ConfigMaps and PodGroups: created before the pods, kept as desired."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from trainshed.api import quantity
from trainshed.api.actions import Action, CreateDependent, DeleteDependent, UpdateDependent
from trainshed.api.dependent import Dependent, Wish
from trainshed.api.framework import Framework
from trainshed.api.job import Job
from trainshed.api.pod import Phase

from . import build, gang, names
from .facts import Facts

#: An annotation: a digest of the content written last, so that fields that are no longer desired are noticed, too.
DIGEST = "trainshed.dev/digest"


def wishes(facts: Facts) -> tuple[Wish, ...]:
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


def _create_or_update(facts: Facts, wish: Wish, found: Dependent | None) -> Action | None:
    if found is None:
        if wish.shared and not facts.missing:
            return None  # may belong to another owner; its existence is checked when pods are created
        return CreateDependent(wish.resource, wish.name, body(facts.framework, facts.job, wish), wish.shared)
    if found.deleting or not _differs(facts, wish, found):
        return None
    return UpdateDependent(wish.resource, wish.name, _patch(facts, wish, found))


def body(framework: Framework, job: Job, wish: Wish) -> dict[str, Any]:
    """Return the body of a dependent for its creation."""
    metadata = _metadata(framework, job, wish) | {"name": wish.name, "ownerReferences": [build.owner(job)]}
    head = {"apiVersion": wish.resource.api_version, "kind": wish.resource.kind}
    return {**head, "metadata": metadata, **wish.content}


def _metadata(framework: Framework, job: Job, wish: Wish) -> dict[str, Any]:
    labels = dict(wish.labels) | names.job_labels(framework, job)
    return {"labels": labels, "annotations": dict(wish.annotations) | {DIGEST: _digest(wish)}}


def _digest(wish: Wish) -> str:
    text = json.dumps((wish.content, wish.labels, wish.annotations), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differs(facts: Facts, wish: Wish, found: Dependent) -> bool:
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
    amount = quantity.parse(wanted)
    return actual == wanted or (amount is not None and amount == quantity.parse(actual))


def _patch(facts: Facts, wish: Wish, found: Dependent) -> dict[str, Any]:
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

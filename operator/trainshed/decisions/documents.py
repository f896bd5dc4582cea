"""Snapshots and plans as JSON documents and back, without what containers get: no values, commands, arguments."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import replace

from trainshed.api import objects
from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    CreateSshSecret,
    Plan,
    Snapshot,
    UpdateDependent,
)
from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.digest import Digest, ManyTexts
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import KUEUE_PREFIX, Document, Job
from trainshed.api.objects import Resource
from trainshed.api.status import Status
from trainshed.frameworks import ALL_VERSIONS
from trainshed.frameworks.mpi import DISCOVER, MPIJobOptions
from trainshed.frameworks.mpi_v2beta1 import MPIJobV2Options
from trainshed.frameworks.pytorch import PyTorchJobOptions
from trainshed.frameworks.tensorflow import TFJobOptions

#: The types of the options of the kinds that have some, by their names.
OPTIONS: Mapping[str, type] = {
    one.__name__: one for one in (MPIJobOptions, MPIJobV2Options, PyTorchJobOptions, TFJobOptions)
}
#: Fields of containers and of what they have that say what runs; of each word of them the planner reads only DISCOVER.
WORDS = frozenset(("command", "args"))
#: Fields whose values are not kept, with the names of their items.
NAMED = frozenset(("env", "httpHeaders"))
#: The key of what stands for a large part of an object, by its type.
STANDS_FOR: Mapping[str, type[msgspec.Struct]] = {"$digest": Digest, "$texts": ManyTexts}
#: The kinds of dependents: the planner compares them by identity.
RESOURCES = {one: one for one in vars(objects).values() if isinstance(one, Resource)}
#: The most characters of a digest.
DIGEST = 16
#: Actions of which the objects that they write differ by a digest, and the field that has the object.
BODIES = {CreateService: "body", CreateSshSecret: "body", CreateDependent: "body", UpdateDependent: "patch"}


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a struct with their defaults; NODEFAULT for one that must be given."""
    return tuple(
        (one.name, one.default_factory() if one.default_factory is not msgspec.NODEFAULT else one.default)
        for one in msgspec.structs.fields(kind)
    )


def document(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value as JSON has it; of a struct the fields that differ from their defaults."""
    if value is None or isinstance(value, (str, int, float, datetime, bytes)):
        return _scalar(value)
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    if isinstance(value, Mapping):
        return {str(key): document(found) for key, found in value.items()}
    if dataclasses.is_dataclass(value):
        return {one.name: document(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return sorted(document(found) for found in value)
    return [document(found) for found in value]  # type: ignore[attr-defined] # a tuple or a list


def _scalar(value: str | float | datetime | bytes | None) -> str | float | None:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, str) else value


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    for mark, kind in STANDS_FOR.items():
        if type(value) is kind:
            return {mark: {name: document(getattr(value, name)) for name in kind.__struct_fields__}}
    fields = ((name, getattr(value, name), default) for name, default in _fields(type(value)))
    return {name: document(found) for name, found, default in fields if default is not found and default != found}


def changes(before: msgspec.Struct, after: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct that differ from those of an earlier one of its type, with their new values."""
    both = ((name, getattr(before, name), getattr(after, name)) for name, _ in _fields(type(after)))
    return {name: document(new) for name, old, new in both if old is not new and old != new}


def redacted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without what containers get, and with the name of the type of the options beside them.

    What the planner decides is the same; of the pods that it creates the content would be another one.
    """
    job, options = snapshot.job, snapshot.job.options
    groups = tuple(replace(group, template=_template(group.template)) for group in job.groups)
    named = {type(options).__name__: options} if type(options).__name__ in OPTIONS else None
    defaults = replace(snapshot.job_defaults, init_template="")
    return replace(snapshot, job=replace(job, groups=groups, options=named), job_defaults=defaults)


def _template(template: Document) -> Document:
    metadata = as_mapping(template.get("metadata"))
    texts = {str(key): _kept(str(key), text) for key, text in as_mapping(metadata.get("annotations")).items()}
    own = {"metadata": {**metadata, "annotations": texts}} if texts else {}
    return {**template, "spec": _without_words(template.get("spec")), **own}


def _kept(name: str, text: object) -> object:
    """Return the annotation of a template if it is about how it is scheduled, an empty one otherwise."""
    return text if name.startswith(KUEUE_PREFIX) or "scheduling" in name else ""


def _without_words(found: object) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(found, Mapping):
        return {key: _without_word(key, value) for key, value in found.items()}
    return list(map(_without_words, found)) if isinstance(found, (list, tuple)) else found


def _without_word(key: str, value: object) -> Any:  # noqa: ANN401 - any JSON value
    if key in WORDS:
        return [DISCOVER if DISCOVER in str(word) else "" for word in as_sequence(value)]
    if key in NAMED:
        return [{"name": as_mapping(item).get("name")} for item in as_sequence(value)]
    return _without_words(value)


#: The types of the fields of a snapshot that are decoded as they are.
PLAIN: Mapping[str, Any] = {
    name: kind for name, kind in get_type_hints(Snapshot).items() if name not in ("job", "framework")
}


def snapshot_of(found: Document, framework: Framework) -> Snapshot:
    """Return the snapshot that a document has; raises `ValueError` if it is none, as this version makes them."""
    try:
        job = msgspec.convert(found["job"], Job)
        fields = {name: msgspec.convert(value, PLAIN[name]) for name, value in found.items() if name in PLAIN}
        options = as_mapping(job.options)
        dependents = fields.get("dependents", ())
        fields["dependents"] = tuple(
            replace(one, resource=RESOURCES.get(one.resource, one.resource), document=_restored(one.document))
            for one in dependents
        )
        if fields["now"].tzinfo is None:
            raise ValueError("it has no time with a zone")
        fields["unserved"] = tuple(RESOURCES.get(one, one) for one in fields.get("unserved", ()))
        fields["answers"] = {uid: _restored(one) for uid, one in fields.get("answers", {}).items()}
        for name, kind in OPTIONS.items():
            if name in options:
                job = replace(job, options=msgspec.convert(options[name], kind))
        return Snapshot(job=job, framework=framework, **fields)
    except (KeyError, TypeError, msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _restored(found: object) -> Any:  # noqa: ANN401 - any JSON value, or what stands for one
    """Return a part of an object as the planner reads it."""
    if isinstance(found, list):
        return list(map(_restored, found))
    if not isinstance(found, Mapping):
        return found
    for mark, kind in STANDS_FOR.items():
        if found.keys() == {mark} and (parts := as_mapping(found[mark])):
            return _stand_in(kind, dict(parts))
    return {key: _restored(value) for key, value in found.items()}


def _stand_in(kind: type[msgspec.Struct], parts: dict[str, Any]) -> msgspec.Struct:
    for name in ("content", "entries"):
        if name in parts:
            parts[name] = bytes.fromhex(str(parts[name]))
    if whole := as_mapping(as_mapping(parts.get("whole")).get("$digest")):
        parts["whole"] = _stand_in(Digest, dict(whole))
    for name in parts.keys() & {"names"}:
        parts[name] = tuple(parts[name])
    return kind(**parts)


def framework_of(api_version: object, kind: object) -> Framework:
    """Return the framework of a version and a kind; raises `ValueError` if this version has none."""
    found = ALL_VERSIONS.get((str(api_version), str(kind)))
    if found is None:
        message = f"there is no kind {kind} of {api_version} in this version"
        raise ValueError(message)
    return found


def defaults_of(found: object) -> JobDefaults:
    """Return the settings that a document has."""
    return msgspec.convert(found, JobDefaults)


def plan_document(before: Status, plan: Plan) -> dict[str, Any]:
    """Return the plan as a document: of its status what differs, of objects that it writes digests, of pods nothing."""
    rest = {
        "status": changes(before, plan.status),
        "events": [document(event) for event in plan.events],
        "actions": [_action(action) for action in plan.actions],
        "requeueAt": document(plan.requeue_at),
        "podsToVerify": [*plan.pods_to_verify],
        "eventsToRead": plan.events_to_read,
        "nodesToRead": [*plan.nodes_to_read],
    }
    return {name: value for name, value in rest.items() if value not in (None, "", [], {})}


def _action(action: Action) -> list[Any]:
    kind = type(action)
    if isinstance(action, CreatePod):
        return [kind.__name__, {"name": action.name, "attempt": action.attempt}]
    found = document(action)
    if kind in BODIES:
        found[BODIES[kind]] = digest(found[BODIES[kind]])
    return [kind.__name__, found]


def digest(found: object) -> str:
    """Return a short digest of a JSON value; any of the same content has it."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:DIGEST]

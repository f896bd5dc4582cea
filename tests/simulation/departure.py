"""How objects leave: preconditions, a pod's time of grace, finalizers, and what becomes of those they own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from . import pods
from .answers import conflict
from .resources import NAMESPACES, PODS, Resource
from .storage import Storage, Stored

Document = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
#: What a propagation policy asks the garbage collector for, by a finalizer.
FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


@dataclass(frozen=True, slots=True)
class Options:
    """DeleteOptions: seconds of grace or None, the policy or nothing, and what the object has to be."""

    grace: int | None = None
    policy: str = ""
    preconditions: Document = field(default_factory=dict)

    @classmethod
    def read(cls, body: Document) -> Options:
        """From the body of a request."""
        policy = body.get("propagationPolicy") or ("Orphan" if body.get("orphanDependents") else "")
        return cls(body.get("gracePeriodSeconds"), policy, body.get("preconditions") or {})


class Departure:
    """Lets objects go; `stamp` is the time of day in so many seconds, as the server writes it."""

    def __init__(self, storage: Storage, stamp: Callable[[float], str]) -> None:
        self._storage = storage
        self._stamp = stamp

    def begin(self, resource: Resource, key: str, found: Stored, options: Options) -> tuple[Document, bool]:
        """Let an object go, or begin to; what it is by now, and whether it is gone. Raises `Refusal`."""
        _check(resource, found.document["metadata"], options.preconditions)
        leaving = self._leaving(resource, found.document, options)
        if leaving is None:  # it has been told before, and has as much time as it had
            return found.document, False
        metadata = leaving["metadata"]
        waits = bool(metadata.get("finalizers")) or metadata.get("deletionGracePeriodSeconds", 0) > 0
        if resource is NAMESPACES:
            waits = True
        if leaving != found.document and (waits or resource is PODS):
            found = self._storage.put(resource, key, leaving)
        if waits:
            return found.document, False
        return self._storage.drop(resource, key).document, True

    def is_over(self, before: Document, after: Document) -> bool:
        """Whether an object goes with this change: it was to go, and nothing holds it any more."""
        told = before["metadata"].get("deletionGracePeriodSeconds") == 0
        return told and not after["metadata"].get("finalizers")

    def _leaving(self, resource: Resource, document: Document, options: Options) -> Document | None:
        """The object, told to go; None if it has been told before and nothing is different."""
        if resource is PODS:
            return self._leaving_pod(document, options)
        held = _held(document["metadata"], options.policy)
        if held.get("finalizers") or resource is NAMESPACES:
            held = self._told(held, 0)
        gone = {**document, "metadata": held}
        if resource is NAMESPACES:
            gone["metadata"] = {key: value for key, value in held.items() if key != "deletionGracePeriodSeconds"}
            gone["status"] = {**document.get("status", {}), "phase": "Terminating"}
        return gone

    def _leaving_pod(self, document: Document, options: Options) -> Document | None:
        metadata = document["metadata"]
        if "deletionTimestamp" not in metadata:
            grace = pods.grace(document, options.grace)
            return {**document, "metadata": self._told(_held(metadata, options.policy), grace)}
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if left == 0:
            return {**document, "metadata": self._told(_held(metadata, options.policy), 0)}
        if options.grace is None or options.grace >= left:
            return None
        return {**document, "metadata": self._shortened(_held(metadata, options.policy), options.grace - left)}

    def _shortened(self, metadata: Document, by: int) -> Document:
        """Told again, with less time since the first word; the end is never in the past (rest.BeforeDelete)."""
        due, now = moved(metadata["deletionTimestamp"], by), self._stamp(0)
        grace = metadata["deletionGracePeriodSeconds"] + by
        if due < now:
            due, grace = now, min(grace, 1)
        begun = {key: value for key, value in metadata.items() if key != "deletionTimestamp"}
        return {**begun, "deletionTimestamp": due, "deletionGracePeriodSeconds": grace}

    def _told(self, metadata: Document, grace: int) -> Document:
        if "deletionTimestamp" in metadata:
            return {**metadata, "deletionGracePeriodSeconds": grace}
        told = {**metadata, "deletionTimestamp": self._stamp(grace), "deletionGracePeriodSeconds": grace}
        if "generation" in metadata:
            told["generation"] = metadata["generation"] + 1
        return told


def moved(stamp: str, seconds: int) -> str:
    """A time of day so many seconds later."""
    later = datetime.fromisoformat(stamp) + timedelta(seconds=seconds)
    return later.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _held(metadata: Document, policy: str) -> Document:
    """With the finalizer that the policy asks for, and without the other; as it is without a policy."""
    if not policy:
        return metadata
    before = metadata.get("finalizers") or []
    after = [name for name in before if name not in (ORPHAN, FOREGROUND)]
    after += [FINALIZERS[policy]] if policy in FINALIZERS else []
    if set(after) == set(before):
        return metadata
    rest = {key: value for key, value in metadata.items() if key != "finalizers"}
    return {**rest, "finalizers": after} if after else rest


def _check(resource: Resource, metadata: Document, preconditions: Document) -> None:
    for field_, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = preconditions.get(field_)
        if wanted and wanted != metadata[field_]:
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {metadata[field_]}"
            raise conflict(resource.full, metadata["name"], why)

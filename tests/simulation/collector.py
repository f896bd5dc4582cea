"""The controllers that live beside the server: who sweeps what has lost its owners, and empties namespaces that go.

What there is to do is found by looking, and done one write at a time, as late as whoever drives the simulation likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.audit.change import COLLECTOR

from .answers import Refusal
from .departure import FOREGROUND, ORPHAN
from .resources import NAMESPACES, Resource
from .server import Server
from .storage import Place, Stored

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chore:
    """A write that is due: a verb, a path, and a body."""

    verb: str
    path: str
    body: Document


class Collector:
    """Looks at a server, and sweeps."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._storage = server.storage

    def chores(self) -> list[Chore]:
        """All that could be done next, each independent of the others."""
        return [*self._held(), *self._owned(), *self._namespaces()]

    def sweep(self, chore: Chore) -> None:
        """Do a chore; that it is not possible any more is no misfortune."""
        try:
            self._server.request(COLLECTOR, chore.verb, chore.path, body=chore.body)
        except Refusal as refusal:
            if refusal.code not in (404, 409):
                raise

    def sweep_all(self, most: int = 10_000) -> int:
        """Sweep until there is nothing left to sweep; how many chores that took."""
        done = 0
        while chores := self.chores():
            for chore in chores:
                self.sweep(chore)
                done += 1
            assert done < most, f"no end of {chores[0]}"
        return done

    def _held(self) -> Iterator[Chore]:
        """Owners that a finalizer holds until their dependents are gone, or orphaned."""
        for resource in self._server.table.all:
            for key, stored in self._storage.table(resource).items():
                metadata = stored.document["metadata"]
                if "deletionTimestamp" not in metadata:
                    continue
                finalizers = metadata.get("finalizers", ())
                if ORPHAN in finalizers:
                    orphans = [_without(place, owned, stored.uid) for place, owned in self._dependents(stored)]
                    yield from orphans or [_released(resource, key, stored, ORPHAN)]
                elif FOREGROUND in finalizers and not any(self._blocking(stored)):
                    yield _released(resource, key, stored, FOREGROUND)

    def _owned(self) -> Iterator[Chore]:
        """Dependents whose owners are gone, or wait for them to go."""
        seen = dict.fromkeys(place for uid in self._storage.owners() for place in self._storage.dependents(uid))
        for place in seen:
            stored = self._storage.get(*place)
            if stored is not None and "deletionTimestamp" not in stored.document["metadata"]:
                yield from self._owned_by(place, stored)

    def _owned_by(self, place: Place, stored: Stored) -> Iterator[Chore]:
        solid, waiting, gone = [], [], []
        for owner in stored.document["metadata"]["ownerReferences"]:
            found = self._owner(owner, stored.document["metadata"].get("namespace", ""))
            if found is None:
                gone.append(owner)
            elif "deletionTimestamp" in found["metadata"] and FOREGROUND in found["metadata"].get("finalizers", ()):
                waiting.append(owner)
            else:
                solid.append(owner)
        if solid and (gone or waiting):
            yield _patch(place, stored, {"ownerReferences": solid})
        elif not solid and waiting and self._storage.dependents(stored.uid):
            yield _delete(place, stored, "Foreground")
        elif not solid:
            yield _delete(place, stored, _policy(stored))

    def _owner(self, reference: Document, namespace: str) -> Document | None:
        place = self._storage.place(reference["uid"])
        if place is None or self._server.table.named(reference["apiVersion"], reference["kind"]) is not place[0]:
            return None
        found = self._storage.get(*place)
        if found is None or found.document["metadata"].get("namespace", namespace) != namespace:
            return None
        return found.document if found.document["metadata"]["name"] == reference["name"] else None

    def _dependents(self, owner: Stored) -> Iterator[tuple[Place, Stored]]:
        for place in self._storage.dependents(owner.uid):
            found = self._storage.get(*place)
            if found is not None:
                yield place, found

    def _blocking(self, owner: Stored) -> Iterator[bool]:
        for _, dependent in self._dependents(owner):
            for reference in dependent.document["metadata"]["ownerReferences"]:
                if reference["uid"] == owner.uid and reference.get("blockOwnerDeletion"):
                    yield True

    def _namespaces(self) -> Iterator[Chore]:
        for name, namespace in tuple(self._storage.table(NAMESPACES).items()):
            if namespace.document["status"].get("phase") != "Terminating":
                continue
            inside = [
                ((resource, key), stored)
                for resource in self._server.table.all
                for key, stored in self._storage.table(resource).items()
                if resource.namespaced and key.startswith(f"{name}/")
            ]
            for place, stored in inside:
                if "deletionTimestamp" not in stored.document["metadata"]:
                    yield _delete(place, stored, "Background")
            if not inside:
                yield Chore("PUT", f"/api/v1/namespaces/{name}/finalize", {})


def _path(place: Place) -> str:
    resource, key = place
    namespace, _, name = key.rpartition("/")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{resource.prefix}{within}/{resource.plural}/{name}"


def _policy(stored: Stored) -> str:
    finalizers = stored.document["metadata"].get("finalizers", ())
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _delete(place: Place, stored: Stored, policy: str) -> Chore:
    body = {"propagationPolicy": policy, "preconditions": {"uid": stored.uid}}
    return Chore("DELETE", _path(place), body)


def _patch(place: Place, stored: Stored, metadata: Document) -> Chore:
    known = {"uid": stored.uid, "resourceVersion": str(stored.version)}
    return Chore("PATCH", _path(place), {"metadata": {**known, **metadata}})


def _without(place: Place, dependent: Stored, uid: str) -> Chore:
    owners = [owner for owner in dependent.document["metadata"]["ownerReferences"] if owner["uid"] != uid]
    return _patch(place, dependent, {"ownerReferences": owners or None})


def _released(resource: Resource, key: str, owner: Stored, finalizer: str) -> Chore:
    left = [name for name in owner.document["metadata"]["finalizers"] if name != finalizer]
    return _patch((resource, key), owner, {"finalizers": left})

"""The garbage collector and the namespace controller.

They find pending writes in the store; the caller decides when each is executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .built_in import NAMESPACES
from .errors import StatusError
from .registry import FOREGROUND, ORPHAN
from .resources import ServedResource
from .server import Server
from .versioned_store import Location, StoredObject

Document = dict[str, Any]
#: The actor of its requests.
COLLECTOR = "gc"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A pending request: its verb, path and body."""

    verb: str
    path: str
    body: Document


class GarbageCollector:
    """The garbage collector of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.store

    def pending(self) -> list[PendingWrite]:
        """Return all pending writes, which are independent of each other."""
        return [*self._waiting_owners(), *self._dependents_without_owner(), *self._namespaces()]

    def execute(self, write: PendingWrite) -> None:
        """Execute a write; 404 and 409 are ignored."""
        try:
            self._server.request(COLLECTOR, write.verb, write.path, body=write.body)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def run(self, limit: int = 10_000) -> int:
        """Execute writes until none is pending; return their number. Raises `RecursionError` after `limit` writes."""
        done = 0
        while pending := self.pending():
            for write in pending:
                self.execute(write)
                done += 1
            if done >= limit:
                raise RecursionError(f"no end of {pending[0]}")
        return done

    def _waiting_owners(self) -> Iterator[PendingWrite]:
        """Yield the writes for owners whose finalizer waits until their dependents are deleted or orphaned."""
        for resource in self._server.resources.all:
            for key, stored in self._store.table(resource).items():
                metadata = stored.document["metadata"]
                if "deletionTimestamp" not in metadata:
                    continue
                finalizers = metadata.get("finalizers", ())
                if ORPHAN in finalizers:
                    orphans = [_orphan(location, owned, stored.uid) for location, owned in self._dependents(stored)]
                    yield from orphans or [_remove_finalizer(resource, key, stored, ORPHAN)]
                elif FOREGROUND in finalizers and not any(self._blocking(stored)):
                    yield _remove_finalizer(resource, key, stored, FOREGROUND)

    def _dependents_without_owner(self) -> Iterator[PendingWrite]:
        """Yield the writes for dependents whose owners are gone, or wait for their deletion."""
        seen = dict.fromkeys(location for uid in self._store.owners() for location in self._store.dependents(uid))
        for location in seen:
            stored = self._store.get(*location)
            if stored is not None and "deletionTimestamp" not in stored.document["metadata"]:
                yield from self._write_for(location, stored)

    def _write_for(self, location: Location, stored: StoredObject) -> Iterator[PendingWrite]:
        present, waiting, gone = [], [], []
        for owner in stored.document["metadata"]["ownerReferences"]:
            found = self._owner(owner, stored.document["metadata"].get("namespace", ""))
            if found is None:
                gone.append(owner)
            elif "deletionTimestamp" in found["metadata"] and FOREGROUND in found["metadata"].get("finalizers", ()):
                waiting.append(owner)
            else:
                present.append(owner)
        if present and (gone or waiting):
            yield _patch(location, stored, {"ownerReferences": present})
        elif not present and waiting and self._store.dependents(stored.uid):
            yield _delete(location, stored, "Foreground")
        elif not present:
            yield _delete(location, stored, _policy(stored))

    def _owner(self, reference: Document, namespace: str) -> Document | None:
        location = self._store.find(reference["uid"])
        if (
            location is None
            or self._server.resources.named(reference["apiVersion"], reference["kind"]) is not location[0]
        ):
            return None
        found = self._store.get(*location)
        if found is None or found.document["metadata"].get("namespace", namespace) != namespace:
            return None
        return found.document if found.document["metadata"]["name"] == reference["name"] else None

    def _dependents(self, owner: StoredObject) -> Iterator[tuple[Location, StoredObject]]:
        for location in self._store.dependents(owner.uid):
            found = self._store.get(*location)
            if found is not None:
                yield location, found

    def _blocking(self, owner: StoredObject) -> Iterator[bool]:
        for _, dependent in self._dependents(owner):
            for reference in dependent.document["metadata"]["ownerReferences"]:
                if reference["uid"] == owner.uid and reference.get("blockOwnerDeletion"):
                    yield True

    def _namespaces(self) -> Iterator[PendingWrite]:
        for name, namespace in tuple(self._store.table(NAMESPACES).items()):
            if namespace.document["status"].get("phase") != "Terminating":
                continue
            inside = [
                ((resource, key), stored)
                for resource in self._server.resources.all
                for key, stored in self._store.table(resource).items()
                if resource.namespaced and key.startswith(f"{name}/")
            ]
            for location, stored in inside:
                if "deletionTimestamp" not in stored.document["metadata"]:
                    yield _delete(location, stored, "Background")
            if not inside:
                yield PendingWrite("PUT", f"/api/v1/namespaces/{name}/finalize", {})


def _path(location: Location) -> str:
    resource, key = location
    namespace, _, name = key.rpartition("/")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{resource.prefix}{within}/{resource.plural}/{name}"


def _policy(stored: StoredObject) -> str:
    finalizers = stored.document["metadata"].get("finalizers", ())
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _delete(location: Location, stored: StoredObject, policy: str) -> PendingWrite:
    body = {"propagationPolicy": policy, "preconditions": {"uid": stored.uid}}
    return PendingWrite("DELETE", _path(location), body)


def _patch(location: Location, stored: StoredObject, metadata: Document) -> PendingWrite:
    known = {"uid": stored.uid, "resourceVersion": str(stored.version)}
    return PendingWrite("PATCH", _path(location), {"metadata": {**known, **metadata}})


def _orphan(location: Location, dependent: StoredObject, uid: str) -> PendingWrite:
    owners = [owner for owner in dependent.document["metadata"]["ownerReferences"] if owner["uid"] != uid]
    return _patch(location, dependent, {"ownerReferences": owners or None})


def _remove_finalizer(resource: ServedResource, key: str, owner: StoredObject, finalizer: str) -> PendingWrite:
    left = [name for name in owner.document["metadata"]["finalizers"] if name != finalizer]
    return _patch((resource, key), owner, {"finalizers": left})

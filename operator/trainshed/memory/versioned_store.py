"""Every object with its resource version, and the history until it is compacted, as in etcd.

A stored document is never changed: a writer makes a new one that shares the parts that are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from .resources import ServedResource

Document = dict[str, Any]
#: Where an object is: its resource and its key.
Location = tuple[ServedResource, str]


class StoredObject:
    """An object at a version; it is serialized on first use."""

    __slots__ = ("_raw", "document", "version")

    def __init__(self, document: Document, version: int) -> None:
        self.document = document
        self.version = version
        self._raw = b""

    @property
    def raw(self) -> bytes:
        """Return it as JSON."""
        if not self._raw:
            self._raw = orjson.dumps(self.document)
        return self._raw

    @property
    def uid(self) -> str:
        """Return its uid."""
        uid: str = self.document["metadata"]["uid"]
        return uid


@dataclass(frozen=True, slots=True)
class Commit:
    """A change: `before` is None for a new object; `after` is the new object, or a deleted one at its last version."""

    version: int
    resource: ServedResource
    key: str
    before: StoredObject | None
    after: StoredObject
    deleted: bool = False


class Expired(Exception):
    """The version is compacted."""


class VersionedStore:
    """All objects by resource and key (`namespace/name` or `name`); `listeners` are called with each commit.

    At least the last `history` commits of each resource are kept, without it all of them.
    """

    def __init__(self, history: int = 0) -> None:
        self.version = 100
        self.compacted = 99
        self._history = history
        self.listeners: list[Callable[[Commit], None]] = []
        self._tables: dict[ServedResource, dict[str, StoredObject]] = {}
        self._log: dict[ServedResource, list[Commit]] = {}
        self._by_uid: dict[str, Location] = {}
        self._dependents: dict[str, dict[Location, None]] = {}

    def table(self, resource: ServedResource) -> Mapping[str, StoredObject]:
        """Return all objects of a resource by key."""
        return self._tables.setdefault(resource, {})

    def get(self, resource: ServedResource, key: str) -> StoredObject | None:
        """Return an object, or None."""
        return self._tables.setdefault(resource, {}).get(key)

    def put(self, resource: ServedResource, key: str, document: Document) -> StoredObject:
        """Store a new or changed object at the next version."""
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        after = StoredObject({**document, "metadata": metadata}, self.version)
        table = self._tables.setdefault(resource, {})
        before = table.get(key)
        table[key] = after
        self._index(resource, key, before, after)
        self._notify(Commit(self.version, resource, key, before, after))
        return after

    def drop(self, resource: ServedResource, key: str) -> StoredObject:
        """Remove an object; return it at the version of its removal."""
        self.version += 1
        before = self._tables[resource].pop(key)
        metadata = {**before.document["metadata"], "resourceVersion": str(self.version)}
        after = StoredObject({**before.document, "metadata": metadata}, self.version)
        self._index(resource, key, before, None)
        self._notify(Commit(self.version, resource, key, before, after, deleted=True))
        return after

    def find(self, uid: str) -> Location | None:
        """Return where the object with this uid is."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> tuple[Location, ...]:
        """Return the objects that have an ownerReference with this uid."""
        return tuple(self._dependents.get(uid, ()))

    def owners(self) -> tuple[str, ...]:
        """Return the uids in all ownerReferences."""
        return tuple(self._dependents)

    def since(self, resource: ServedResource, version: int) -> list[Commit]:
        """Return the commits of a resource after a version; raises `Expired`."""
        if version < self.compacted:
            raise Expired
        log = self._log.get(resource, [])
        return log[bisect_right(log, version, key=lambda commit: commit.version) :]

    def at(self, resource: ServedResource, version: int) -> Mapping[str, StoredObject]:
        """Return all objects of a resource as of a version; raises `Expired`."""
        later = self.since(resource, version)
        if not later:
            return self.table(resource)
        found = dict(self.table(resource))
        for commit in reversed(later):
            if commit.before is None:
                del found[commit.key]
            else:
                found[commit.key] = commit.before
        return found

    def compact(self, version: int | None = None) -> None:
        """Drop the history before a version, by default all of it."""
        self.compacted = max(self.compacted, self.version if version is None else version)
        for log in self._log.values():
            del log[: bisect_right(log, self.compacted, key=lambda commit: commit.version)]

    def _notify(self, commit: Commit) -> None:
        log = self._log.setdefault(commit.resource, [])
        log.append(commit)
        if self._history and len(log) > 2 * self._history:
            self.compact(log[-self._history - 1].version)
        for listener in self.listeners:
            listener(commit)

    def _index(
        self, resource: ServedResource, key: str, before: StoredObject | None, after: StoredObject | None
    ) -> None:
        was = before.document["metadata"].get("ownerReferences") if before else None
        now = after.document["metadata"].get("ownerReferences") if after else None
        location = (resource, key)
        if was is not now and was != now:
            for owner in was or ():
                self._remove_dependent(owner["uid"], location)
            for owner in now or ():
                self._dependents.setdefault(owner["uid"], {})[location] = None
        if before is None and after is not None:
            self._by_uid[after.uid] = location
        elif before is not None and after is None:
            del self._by_uid[before.uid]

    def _remove_dependent(self, uid: str, location: Location) -> None:
        dependents = self._dependents.get(uid, {})
        dependents.pop(location, None)
        if not dependents:
            self._dependents.pop(uid, None)


def merge_patch(target: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the target with a JSON merge patch (RFC 7386) applied; the target itself if nothing changes."""
    if not isinstance(patch, dict):
        return target if type(target) is type(patch) and target == patch else patch
    before = target if isinstance(target, dict) else {}
    after = before
    for key, value in patch.items():
        if value is None:
            if key in after:
                after = {name: part for name, part in after.items() if name != key}
            continue
        part = merge_patch(before.get(key), value)
        if key not in before or part is not before[key]:
            after = {**after, key: part}
    return after if isinstance(target, dict) else dict(after)

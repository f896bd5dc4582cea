"""What the server keeps: every object at its version, and every version that there was until it is compacted.

A document, once stored, is never changed: whoever writes makes a new one that shares what is the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from .resources import Resource

Document = dict[str, Any]
#: Who an object was: its kind and where it was.
Place = tuple[Resource, str]


class Stored:
    """An object at a version; its bytes are made when somebody asks for them."""

    __slots__ = ("_raw", "document", "version")

    def __init__(self, document: Document, version: int) -> None:
        self.document = document
        self.version = version
        self._raw = b""

    @property
    def raw(self) -> bytes:
        """As it is sent."""
        if not self._raw:
            self._raw = orjson.dumps(self.document)
        return self._raw

    @property
    def uid(self) -> str:
        """Its uid."""
        uid: str = self.document["metadata"]["uid"]
        return uid


@dataclass(frozen=True, slots=True)
class Commit:
    """A change: `before` is None for what is new; `after` is what is now, or for what was deleted its last words."""

    version: int
    resource: Resource
    key: str
    before: Stored | None
    after: Stored
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """All that was kept at a version."""

    version: int
    tables: Mapping[Resource, Mapping[str, Stored]]


class Expired(Exception):
    """The version is not kept any more."""


class Storage:
    """All objects by kind and key, which is `namespace/name` or `name`; `told` hears of each commit."""

    def __init__(self) -> None:
        self.version = 100
        self.compacted = 99
        self.told: list[Callable[[Commit], None]] = []
        self._tables: dict[Resource, dict[str, Stored]] = {}
        self._log: dict[Resource, list[Commit]] = {}
        self._by_uid: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}

    def table(self, resource: Resource) -> Mapping[str, Stored]:
        """All objects of a kind."""
        return self._tables.setdefault(resource, {})

    def get(self, resource: Resource, key: str) -> Stored | None:
        """An object, or None."""
        return self._tables.setdefault(resource, {}).get(key)

    def put(self, resource: Resource, key: str, document: Document) -> Stored:
        """Store an object, new or changed, at the next version."""
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        after = Stored({**document, "metadata": metadata}, self.version)
        table = self._tables.setdefault(resource, {})
        before = table.get(key)
        table[key] = after
        self._index(resource, key, before, after)
        self._tell(Commit(self.version, resource, key, before, after))
        return after

    def drop(self, resource: Resource, key: str) -> Stored:
        """Remove an object; its last words, at the version at which it went."""
        self.version += 1
        before = self._tables[resource].pop(key)
        metadata = {**before.document["metadata"], "resourceVersion": str(self.version)}
        after = Stored({**before.document, "metadata": metadata}, self.version)
        self._index(resource, key, before, None)
        self._tell(Commit(self.version, resource, key, before, after, deleted=True))
        return after

    def place(self, uid: str) -> Place | None:
        """Where the object with this uid is."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> tuple[Place, ...]:
        """The objects that name this uid as an owner of theirs."""
        return tuple(self._dependents.get(uid, ()))

    def owners(self) -> tuple[str, ...]:
        """All uids that somebody names as an owner's."""
        return tuple(self._dependents)

    def since(self, resource: Resource, version: int) -> list[Commit]:
        """What has happened to a kind after a version; raises `Expired`."""
        if version < self.compacted:
            raise Expired
        log = self._log.get(resource, [])
        return log[bisect_right(log, version, key=lambda commit: commit.version) :]

    def at(self, resource: Resource, version: int) -> Mapping[str, Stored]:
        """All objects of a kind as they were at a version; raises `Expired`."""
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
        """Forget what was before a version, or all but what is now."""
        self.compacted = max(self.compacted, self.version if version is None else version)
        for log in self._log.values():
            del log[: bisect_right(log, self.compacted, key=lambda commit: commit.version)]

    def memory(self) -> Memory:
        """What it keeps by now, to be brought back later: nobody changes what is in it."""
        tables = {resource: dict(table) for resource, table in self._tables.items()}
        return Memory(self.version, tables)

    def restore(self, memory: Memory) -> None:
        """Be as it was then, versions and all, as when etcd is restored from a snapshot; nobody is told."""
        self.version = self.compacted = memory.version
        self._tables = {resource: dict(table) for resource, table in memory.tables.items()}
        self._log.clear()
        self._by_uid.clear()
        self._dependents.clear()
        for resource, table in self._tables.items():
            for key, stored in table.items():
                self._index(resource, key, None, stored)

    def _tell(self, commit: Commit) -> None:
        self._log.setdefault(commit.resource, []).append(commit)
        for told in self.told:
            told(commit)

    def _index(self, resource: Resource, key: str, before: Stored | None, after: Stored | None) -> None:
        was = before.document["metadata"].get("ownerReferences") if before else None
        now = after.document["metadata"].get("ownerReferences") if after else None
        place = (resource, key)
        if was is not now and was != now:
            for owner in was or ():
                self._forget_dependent(owner["uid"], place)
            for owner in now or ():
                self._dependents.setdefault(owner["uid"], {})[place] = None
        if before is None and after is not None:
            self._by_uid[after.uid] = place
        elif before is not None and after is None:
            del self._by_uid[before.uid]

    def _forget_dependent(self, uid: str, place: Place) -> None:
        dependents = self._dependents.get(uid, {})
        dependents.pop(place, None)
        if not dependents:
            self._dependents.pop(uid, None)

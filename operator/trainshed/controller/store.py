"""The stores of objects, fed by watches and by the responses to the operator's own writes, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from trainshed.api.digest import digest_of
from trainshed.api.job import Document, Job
from trainshed.api.objects import is_older
from trainshed.api.parse import ParsedSpec
from trainshed.api.status import Status


class Item(Protocol):
    """An object with a UID and a resource version."""

    @property
    def uid(self) -> str:
        """The UID."""

    @property
    def version(self) -> str:
        """The resource version."""


T = TypeVar("T", bound=Item)
#: Called for each change: with the object before it (None if new) and after it (None if gone).
OnChange = Callable[[T | None, T | None], None]
#: Called for each object that is missing in a list without a preceding DELETED event.
OnListDelete = Callable[[T], None]


class Store(Generic[T]):
    """All objects of a kind by UID; an older version never replaces a newer one.

    `latest` is the version until which lists and watches have delivered everything, and `listed` that of the last list,
    empty before the first. Watch events for an object that the server has confirmed deleted are ignored; UIDs are never
    reused. An object that was missing in a list may come back, because a label was removed and added again, but only
    with a newer version.
    """

    def __init__(self, on_change: OnChange[T], on_list_delete: OnListDelete[T] = lambda _item: None) -> None:
        self.items: dict[str, T] = {}
        #: By UID: the version until which events are outdated; None for deleted objects, whose events all are.
        self._past: dict[str, str | None] = {}
        self._on_change = on_change
        self._on_list_delete = on_list_delete
        self.latest, self.listed = "0", ""

    def replaced(self, items: list[T], version: str) -> None:
        """Handle a full list at `version`; objects that the operator created since then stay.

        A version older than `latest` means that etcd was restored from a backup; then the list replaces everything.
        """
        set_back = is_older(version, self.latest)
        there = set() if set_back else {item.uid for item in items}
        self._past = {uid: until for uid, until in self._past.items() if uid in there}
        items = [item for item in items if not self._is_past(item)]
        before, self.latest, self.listed = self.items, version, version
        newer = {uid: item for uid, item in before.items() if is_older(version, item.version)}
        made_since = {} if set_back else newer
        self.items = {item.uid: item for item in items} | made_since
        for uid, item in before.items():
            if uid not in self.items:
                self._on_list_delete(item)
                self._on_change(item, None)
        for uid, item in self.items.items():
            known = before.get(uid)
            if known is None or known.version != item.version:
                self._on_change(known, item)

    def changed(self, item: T) -> None:
        """Handle an ADDED or MODIFIED event."""
        self.on_bookmark(item.version)
        self._put(item)

    def removed(self, item: T) -> None:
        """Handle a DELETED event."""
        self.on_bookmark(item.version)
        self._past.pop(item.uid, None)
        self.forgotten(item.uid)

    def on_response(self, item: T) -> None:
        """Store the response to the operator's own write.

        If the watch is already past that version and the object is not in the store, it was deleted meanwhile and is
        ignored.
        """
        if item.uid in self.items or is_older(self.latest, item.version):
            self._put(item)

    def on_list(self, known: Iterable[T], items: Iterable[T], version: str) -> bool:
        """Handle a list of some objects that was read beside the watch: those of `known` that it lacks are gone.

        Does nothing and returns False if the watch has delivered newer versions than the list.
        """
        if is_older(version, self.latest):
            return False
        found = {item.uid: item for item in items}
        for item in known:
            if item.uid not in found and not is_older(version, item.version):
                self._remove(item.uid, version)
        for item in found.values():
            self._put(item)
        return True

    def deleted(self, uid: str) -> None:
        """Remove an object that the server has confirmed deleted, and ignore later events of it."""
        self._remove(uid, None)

    def forgotten(self, uid: str) -> None:
        """Remove an object; a later event adds it again."""
        item = self.items.pop(uid, None)
        if item is not None:
            self._on_change(item, None)

    def on_bookmark(self, version: str) -> None:
        """Handle a bookmark: everything until this version has been delivered."""
        if not is_older(version, self.latest):
            self.latest = version

    def has(self, uid: str, version: str) -> bool:
        """Return whether an object is known at exactly this version."""
        known = self.items.get(uid)
        return known is not None and known.version == version

    def count(self) -> int:
        """Return the number of objects."""
        return len(self.items)

    def _remove(self, uid: str, until: str | None) -> None:
        if uid in self.items:  # otherwise the watch has already delivered the deletion
            self._past[uid] = until
            self.forgotten(uid)

    def _is_past(self, item: T) -> bool:
        if item.uid not in self._past:
            return False
        until = self._past[item.uid]
        return until is None or item.version == until or is_older(item.version, until)

    def _put(self, item: T) -> None:
        if self._is_past(item):
            return
        self._past.pop(item.uid, None)
        known = self.items.get(item.uid)
        if known is None or (item.version != known.version and not is_older(item.version, known.version)):
            self.items[item.uid] = item
            self._on_change(known, item)


#: The namespace of an object, and the uid of the controller that it names. A reference names no namespace: it is the
#: object's own, and the uid of a job of another namespace, which is no secret, is nothing there.
Owner: TypeAlias = tuple[str, str]


class ChildObject(Item, Protocol):
    """An object that is owned by a job."""

    @property
    def owner(self) -> str:
        """The job's UID."""

    @property
    def namespace(self) -> str:
        """The object's namespace."""

    @property
    def name(self) -> str:
        """The object's name."""

    @property
    def job(self) -> str:
        """The job name in the object's label; without the label no watch delivers the object."""

    @property
    def deleting(self) -> bool:
        """Whether the object's deletion has been requested."""


C = TypeVar("C", bound=ChildObject)


def owner_of(child: ChildObject) -> Owner:
    """Return which job owns this object, if there is such a job."""
    return child.namespace, child.owner


class Children(Generic[C]):
    """The objects of a kind, indexed by the owning job, whether the job is cached or not.

    `wake` is called for each one of which something has changed that the operator reads, `on_change` for each change,
    and `on_lost` for each one that is gone, unless the operator was the first to delete it.
    """

    def __init__(
        self,
        wake: Callable[[C], None],
        on_list_delete: Callable[[C], None] = lambda _child: None,
        on_lost: Callable[[C], None] = lambda _child: None,
        on_change: Callable[[C, C], None] = lambda _before, _after: None,
    ) -> None:
        self.store: Store[C] = Store(self._on_item_change, on_list_delete)
        self._by_owner: dict[Owner, dict[str, C]] = {}
        self._wake = wake
        self._on_lost = on_lost
        self._on_change = on_change
        self._deleted: set[str] = set()
        #: Called with the uid and the last state of each one that the watch no longer reports; None once it is gone.
        self.on_left: Callable[[str, C | None], None] = lambda _uid, _child: None

    def of(self, owner: Owner) -> tuple[C, ...]:
        """Return the children of a job, sorted by name."""
        siblings = self._by_owner.get(owner)
        return tuple(sorted(siblings.values(), key=attrgetter("name"))) if siblings else ()

    def on_delete_response(self, uid: str, child: C | None) -> None:
        """Store the response to a DELETE; without the label no watch event would follow."""
        known = self.store.items.get(uid)
        if known is not None and not known.deleting:
            self._deleted.add(uid)
        if child is not None and child.job:
            self.store.on_response(child)
            return
        if child is None:
            self.store.deleted(uid)
        else:
            self.store.forgotten(uid)
        self.on_left(uid, child)

    def _on_item_change(self, before: C | None, after: C | None) -> None:
        if before is not None and (after is None or owner_of(after) != owner_of(before)):
            siblings = self._by_owner[owner_of(before)]
            del siblings[before.uid]
            if not siblings:
                del self._by_owner[owner_of(before)]
            if before.uid not in self._deleted:
                self._on_lost(before)
            self._deleted.discard(before.uid)
            self._wake(before)
            if after is None:
                self.on_left(before.uid, before)
        elif before is not None and after is not None:
            self._on_change(before, after)
        if after is not None:
            self._by_owner.setdefault(owner_of(after), {})[after.uid] = after
            if before is None or _differ(before, after):
                self._wake(after)


def _differ(before: Item, after: Item) -> bool:
    """Return whether anything but the version differs."""
    return replace(cast("msgspec.Struct", before), version=after.version) != cast("msgspec.Struct", after)


#: Labels and annotations of a job that are kept to be compared; of more there is a digest.
MAX_TEXTS = 64


class CachedJob(msgspec.Struct, frozen=True):
    """A cached job: spec and status at one version. `origin` is what the job depends on besides the spec."""

    job: Job
    status: Status
    spec: ParsedSpec
    origin: object = None

    @property
    def uid(self) -> str:
        """The job's UID."""
        return self.job.uid

    @property
    def version(self) -> str:
        """The resource version."""
        return self.job.version

    @property
    def as_owner(self) -> Owner:
        """The namespace and the UID: what its children have in common."""
        return self.job.namespace, self.job.uid

    def at(self, version: str, status: Status) -> CachedJob:
        """Return the same job at another version, with this status."""
        return replace(self, job=replace(self.job, version=version), status=status)

    def differs(self, other: CachedJob) -> bool:
        """Return whether anything but the version differs that the operator reads, and that something follows from."""
        return (
            replace(self.status, trainer=other.status.trainer) != other.status
            or replace(self.job, version=other.version) != other.job
        )

    def has_spec_of(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the spec is that of the job with this metadata.

        The API server gives each spec of a job a generation. After a restore from a backup another spec may get the
        same one: then the version is usually older.
        """
        generation, version = metadata.get("generation"), str(metadata.get("resourceVersion", ""))
        return bool(generation) and generation == self.job.generation and not is_older(version, self.version)


def with_spec(job: Document) -> Document:
    """Return a job with its spec, which the client decodes only here; raises `msgspec.DecodeError`."""
    spec = job.get("spec")
    return {**job, "spec": spec()} if callable(spec) else job


def origin_of(metadata: Mapping[str, Any]) -> object:
    """Return what a job depends on besides its spec; of many labels and annotations a digest."""
    texts = [metadata.get(part) or {} for part in ("annotations", "labels")]
    is_small = sum(map(len, texts)) <= MAX_TEXTS
    return metadata.get("deletionTimestamp"), texts if is_small else digest_of(texts)

"""The store of one kind of object: fed by a watch and by the responses to the operator's own writes, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from trainshed.api.digest import digest_of
from trainshed.api.job import Job
from trainshed.api.objects import is_older
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

    `latest` is the version until which lists and watches have delivered everything, and `listed` whether there was a
    list. Watch events for an object that the
    server has confirmed deleted are ignored; UIDs are never reused. An object that was missing in a list may come back,
    because a label was removed and added again, but only with a newer version.
    """

    def __init__(self, on_change: OnChange[T], on_list_delete: OnListDelete[T] = lambda _item: None) -> None:
        self.items: dict[str, T] = {}
        #: By UID: the version until which events are outdated; None for deleted objects, whose events all are.
        self._past: dict[str, str | None] = {}
        self._on_change = on_change
        self._on_list_delete = on_list_delete
        self.latest, self.listed = "0", False

    def replaced(self, items: list[T], version: str) -> None:
        """Handle a full list at `version`; objects that the operator created since then stay.

        A version older than `latest` means that etcd was restored from a backup; then the list replaces everything.
        """
        set_back = is_older(version, self.latest)
        there = set() if set_back else {item.uid for item in items}
        self._past = {uid: until for uid, until in self._past.items() if uid in there}
        items = [item for item in items if not self._is_past(item)]
        before, self.latest, self.listed = self.items, version, True
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
        self.reached(item.version)
        self._put(item)

    def removed(self, item: T) -> None:
        """Handle a DELETED event."""
        self.reached(item.version)
        self._past.pop(item.uid, None)
        self.forgotten(item.uid)

    def answered(self, item: T) -> None:
        """Store the response to the operator's own write.

        If the watch is already past that version and the object is not in the store, it was deleted meanwhile and is
        ignored.
        """
        if item.uid in self.items or is_older(self.latest, item.version):
            self._put(item)

    def asked(self, known: Iterable[T], items: Iterable[T], version: str) -> bool:
        """Handle a list of some objects that was read beside the watch: those of `known` that it lacks are gone.

        Does nothing and returns False if the watch has delivered newer versions than the list.
        """
        if is_older(version, self.latest):
            return False
        found = {item.uid: item for item in items}
        for item in known:
            if item.uid not in found and not is_older(version, item.version):
                self._left(item.uid, version)
        for item in found.values():
            self._put(item)
        return True

    def gone(self, uid: str) -> None:
        """Remove an object that the server has confirmed deleted, and ignore later events of it."""
        self._left(uid, None)

    def forgotten(self, uid: str) -> None:
        """Remove an object; a later event adds it again."""
        item = self.items.pop(uid, None)
        if item is not None:
            self._on_change(item, None)

    def reached(self, version: str) -> None:
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

    def _left(self, uid: str, until: str | None) -> None:
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


#: Bytes of JSON of the templates of a job that are kept parsed, which takes up to twenty times as much; and labels and
#: annotations.
PARSED_TEMPLATES, PARSED_TEXTS = 64 * 1024, 64
TEMPLATES = msgspec.json.Decoder(list[dict[str, Any]])


class CachedJob(msgspec.Struct, frozen=True):
    """A cached job: spec and status at one version. `origin` is the part of the document its spec depends on.

    Large `templates` are kept as JSON, and the replicas of `job` have none: `whole` has them.
    """

    job: Job
    status: Status
    origin: object = None
    templates: bytes = b""

    @property
    def uid(self) -> str:
        """The job's UID."""
        return self.job.uid

    @property
    def version(self) -> str:
        """The resource version."""
        return self.job.version

    @property
    def as_owner(self) -> tuple[str, str]:
        """The namespace and the UID: what its children have in common."""
        return self.job.namespace, self.job.uid

    @property
    def whole(self) -> Job:
        """The job with its templates."""
        if not self.templates:
            return self.job
        parts = zip(self.job.groups, TEMPLATES.decode(self.templates), strict=True)
        return replace(self.job, groups=tuple(replace(group, template=template) for group, template in parts))


def packed(job: Job, status: Status, origin: object) -> CachedJob:
    """Return the cached form of a job that was just parsed."""
    try:
        templates = msgspec.json.encode([group.template for group in job.groups])
    except (OverflowError, RecursionError, ValueError):  # such as half a character
        return CachedJob(job, status, origin)
    if len(templates) <= PARSED_TEMPLATES:
        return CachedJob(job, status, origin)
    groups = tuple(replace(group, template={}) for group in job.groups)
    return CachedJob(replace(job, groups=groups), status, origin, templates)


def origin_of(metadata: Mapping[str, Any]) -> object:
    """Return what the spec of a job depends on; of many labels and annotations a digest."""
    texts = [metadata.get(part) or {} for part in ("annotations", "labels")]
    is_small = sum(map(len, texts)) <= PARSED_TEXTS
    return metadata.get("generation"), metadata.get("deletionTimestamp"), texts if is_small else digest_of(texts)

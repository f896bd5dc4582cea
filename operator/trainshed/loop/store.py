"""All objects of a kind that we know: fed by a watch and by the answers to our own writes, in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from trainshed.cluster.versions import older


class Item(Protocol):
    """Whatever has a uid and a version."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def version(self) -> str:
        """Its version."""


T = TypeVar("T", bound=Item)
#: Told of each item that is different now: as it was, None if it is new, and as it is, None if it is gone.
Rumour = Callable[[T | None, T | None], None]
#: Told of each item that a list has taken away: nobody has said that it was removed.
Absence = Callable[[T], None]


class Store(Generic[T]):
    """All objects of a kind by uid; an older version never takes the place of a newer one.

    `latest` is the version up to which the lists and watches have told everything. Of what the server has told us to be
    gone a watch may still tell as it was: a uid never comes again. What it did not show when it was asked may come
    again, as with a label that was taken off and put back, but only as something newer.
    """

    def __init__(self, rumour: Rumour[T], absence: Absence[T] = lambda _item: None) -> None:
        self.items: dict[str, T] = {}
        #: By uid the version until which all that is told of it is history; of what is gone all is.
        self._past: dict[str, str | None] = {}
        self._rumour = rumour
        self._absence = absence
        self.latest = "0"

    def replaced(self, items: list[T], version: str) -> None:
        """These are all there are, as of `version`; what we made since then stays.

        A version older than the latest says that the server's store was set back: what we knew beside is of no time.
        """
        set_back = older(version, self.latest)
        there = set() if set_back else {item.uid for item in items}
        self._past = {uid: until for uid, until in self._past.items() if uid in there}
        items = [item for item in items if not self._is_past(item)]
        before, self.latest = self.items, version
        newer = {uid: item for uid, item in before.items() if older(version, item.version)}
        made_since = {} if set_back else newer
        self.items = {item.uid: item for item in items} | made_since
        for uid, item in before.items():
            if uid not in self.items:
                self._absence(item)
                self._rumour(item, None)
        for uid, item in self.items.items():
            known = before.get(uid)
            if known is None or known.version != item.version:
                self._rumour(known, item)

    def changed(self, item: T) -> None:
        """The watch says that this one is new or different."""
        self.reached(item.version)
        self._put(item)

    def removed(self, item: T) -> None:
        """The watch says that this one is gone."""
        self.reached(item.version)
        self._past.pop(item.uid, None)
        self.forgotten(item.uid)

    def answered(self, item: T) -> None:
        """The answer to a write of ours. If the watch is past it and does not know it, it has come and gone already."""
        if item.uid in self.items or older(self.latest, item.version):
            self._put(item)

    def asked(self, known: Iterable[T], items: Iterable[T], version: str) -> bool:
        """The server was asked, beside the watch, what became of `known`: of their sort there are these and no more.

        Nothing is learned and False returned if the watch has told of more than the server's answer.
        """
        if older(version, self.latest):
            return False
        found = {item.uid: item for item in items}
        for item in known:
            if item.uid not in found and not older(version, item.version):
                self._left(item.uid, version)
        for item in found.values():
            self._put(item)
        return True

    def gone(self, uid: str) -> None:
        """The server says that this one is gone, whatever is told of it later."""
        self._left(uid, None)

    def forgotten(self, uid: str) -> None:
        """This one is to be known no more, unless it is told of again."""
        item = self.items.pop(uid, None)
        if item is not None:
            self._rumour(item, None)

    def reached(self, version: str) -> None:
        """Everything until this version has been told."""
        if not older(version, self.latest):
            self.latest = version

    def count(self) -> int:
        """How many are known."""
        return len(self.items)

    def _left(self, uid: str, until: str | None) -> None:
        if uid in self.items:  # otherwise the watch has told of its end already
            self._past[uid] = until
            self.forgotten(uid)

    def _is_past(self, item: T) -> bool:
        if item.uid not in self._past:
            return False
        until = self._past[item.uid]
        return until is None or item.version == until or older(item.version, until)

    def _put(self, item: T) -> None:
        if self._is_past(item):
            return
        self._past.pop(item.uid, None)
        known = self.items.get(item.uid)
        if known is None or (item.version != known.version and not older(item.version, known.version)):
            self.items[item.uid] = item
            self._rumour(known, item)

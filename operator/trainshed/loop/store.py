"""All objects of a kind that we know: fed by a watch and by the answers to our own writes, in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


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


class Store(Generic[T]):
    """All objects of a kind by uid; an older version never takes the place of a newer one."""

    def __init__(self, rumour: Rumour[T]) -> None:
        self.items: dict[str, T] = {}
        self._rumour = rumour
        self._latest = "0"

    def replaced(self, items: list[T], version: str) -> None:
        """These are all there are, as of `version`; what we made since then stays."""
        before, self._latest = self.items, version
        made_since = {uid: item for uid, item in before.items() if older(version, item.version)}
        self.items = {item.uid: item for item in items} | made_since
        for uid, item in before.items():
            if uid not in self.items:
                self._rumour(item, None)
        for uid, item in self.items.items():
            known = before.get(uid)
            if known is None or known.version != item.version:
                self._rumour(known, item)

    def changed(self, item: T) -> None:
        """The watch says that this one is new or different."""
        self._hear(item)
        self._put(item)

    def removed(self, item: T) -> None:
        """The watch says that this one is gone."""
        self._hear(item)
        self.forgotten(item.uid)

    def answered(self, item: T) -> None:
        """The answer to a write of ours. If the watch is past it and does not know it, it has come and gone already."""
        if item.uid in self.items or older(self._latest, item.version):
            self._put(item)

    def forgotten(self, uid: str) -> None:
        """This one is gone."""
        item = self.items.pop(uid, None)
        if item is not None:
            self._rumour(item, None)

    def _hear(self, item: T) -> None:
        if not older(item.version, self._latest):
            self._latest = item.version

    def _put(self, item: T) -> None:
        known = self.items.get(item.uid)
        if known is None or (item.version != known.version and not older(item.version, known.version)):
            self.items[item.uid] = item
            self._rumour(known, item)


def older(version: str, than: str) -> bool:
    """Whether a resourceVersion is the earlier one.

    Those of one server ascend and may be compared as numbers (Kubernetes says so since 1.35). Of any others none is
    older, so that whatever is heard last is the latest.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)

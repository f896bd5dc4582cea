"""The children of jobs, by the job that owns them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Generic, Protocol, TypeAlias, TypeVar

from .store import Item, Store

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

    `on_change` is called for each change of an object, and `on_lost` for each one that is gone, unless the operator was
    the first to delete it.
    """

    def __init__(
        self,
        wake: Callable[[C], None],
        on_list_delete: Callable[[C], None] = lambda _child: None,
        on_lost: Callable[[C], None] = lambda _child: None,
        on_change: Callable[[C, C], None] = lambda _before, _after: None,
    ) -> None:
        self.store: Store[C] = Store(self._heard, on_list_delete)
        self._by_owner: dict[Owner, dict[str, C]] = {}
        self._wake = wake
        self._on_lost = on_lost
        self._on_change = on_change
        self._deleted: set[str] = set()

    def of(self, owner: Owner) -> tuple[C, ...]:
        """Return the children of a job, sorted by name."""
        siblings = self._by_owner.get(owner)
        return tuple(sorted(siblings.values(), key=attrgetter("name"))) if siblings else ()

    def left(self, uid: str, child: C | None) -> None:
        """Store the response to a DELETE; without the label no watch event would follow."""
        known = self.store.items.get(uid)
        if known is not None and not known.deleting:
            self._deleted.add(uid)
        if child is None:
            self.store.gone(uid)
        elif child.job:
            self.store.answered(child)
        else:
            self.store.forgotten(uid)

    def _heard(self, before: C | None, after: C | None) -> None:
        if before is not None and (after is None or owner_of(after) != owner_of(before)):
            siblings = self._by_owner[owner_of(before)]
            del siblings[before.uid]
            if not siblings:
                del self._by_owner[owner_of(before)]
            if before.uid not in self._deleted:
                self._on_lost(before)
            self._deleted.discard(before.uid)
            self._wake(before)
        elif before is not None and after is not None:
            self._on_change(before, after)
        if after is not None:
            self._by_owner.setdefault(owner_of(after), {})[after.uid] = after
            self._wake(after)

"""Writes that have to be made again and again, as others undo or prevent them: each waits longer than the last."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeAlias

import msgspec

from trainshed.api import patches
from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    CreateSshSecret,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    ReleasePod,
    Snapshot,
    UpdateDependent,
)
from trainshed.api.digest import digest_of
from trainshed.client import CONFLICTING, UNDONE, ApiError, Conflict, Reverted
from trainshed.plan.messages import writes

#: Seconds of back-off of a write that was undone twice, doubled from one to the next, and the longest. Once is no
#: reason to wait: people delete a Service by mistake.
FIRST, LONGEST, ONCE = 1.0, 20.0, 1
#: Seconds for which a write is remembered, and how many of all jobs.
KEPT, MOST = 600.0, 20_000
#: Creations in a row of an object, after which the next one waits, although the job has changed before each: a user or
#: a queue that suspends and resumes it so often, and faster than each LONGEST, does that by mistake.
OFTEN = 20
#: Conflicts in a row of the same write, after which the next one waits: their back-off is more than a second together,
#: in which a watch delivers what has changed.
CONFLICTS = 8
#: Conflicts in a row after which the same write is made without its version, if what it was planned for is unchanged:
#: others change the object faster than it can be read and written.
CONTESTED = 3
DELETIONS = (DeleteDependent, DeleteService)
#: Restarts and false starts hold back what is repeated of these.
OF_PODS = (CreatePod, DeletePod)
#: The namespace of what is written, and what it is.
Target: TypeAlias = tuple[str, Hashable]


class _Write(msgspec.Struct, frozen=True):
    """A write; how often in a row it has been undone, and how many writes in a row it is the last of."""

    content: object
    undone: int
    number: int
    at: float


class UndoneWrites:
    """The last write to each object, and how often in a row it was made again.

    A write is `undone` if the next one to its target is the same: nothing of the operator has changed it in between.
    `free` is how often it is made again without waiting, and `longest` the most seconds that it waits. After `often`
    writes in a row the next one waits whatever it is. Times are in seconds; a clock that is set back makes none wait
    longer. If there are too many, those of the namespace that has the most of them are forgotten.
    """

    def __init__(self, free: int = ONCE, longest: float = LONGEST, often: int = sys.maxsize) -> None:
        self._free = free
        self._often = often
        self._longest = longest
        self._last: dict[str, OrderedDict[Target, _Write]] = {}
        #: How many writes are remembered.
        self.number = 0

    def wait(self, target: Target, content: object, now: float) -> float:
        """Return the seconds for which this write has to wait, at most 0 if it need not."""
        last = _recent(self._find(target), now)
        if last is None:
            return 0.0
        beyond = max(_times(last, content) - self._free, last.number + 1 - self._often)
        if beyond <= 0:
            return 0.0
        return min(FIRST * float(1 << min(beyond - 1, 30)), self._longest) - abs(now - last.at)

    def wrote(self, target: Target, content: object, now: float) -> None:
        """Remember a write that has to last."""
        known = self._last.get(target[0])
        if known is None:
            known = self._last[target[0]] = OrderedDict()
        before = known.pop(target, None)
        self.number += before is None
        last = _recent(before, now)
        known[target] = _Write(content, _times(last, content), last.number + 1 if last else 1, now)
        self._forget_old(target[0], now)
        if self.number > MOST:
            for namespace in tuple(self._last):
                self._forget_old(namespace, now)
        while self.number > MOST:
            largest = max(self._last.values(), key=len)
            self.forget(next(iter(largest)))

    def times(self, target: Target, content: object, now: float) -> int:
        """Return how often this write has been undone in a row, 0 if the last one was another or is forgotten."""
        return _times(_recent(self._find(target), now), content)

    def last(self, target: Target) -> object:
        """Return the content of the last write, None if there is none."""
        last = self._find(target)
        return last.content if last else None

    def forget(self, target: Target) -> None:
        """Forget the writes to an object."""
        if self._find(target) is None:
            return
        found = self._last[target[0]]
        del found[target]
        self.number -= 1
        if not found:
            del self._last[target[0]]

    def clear(self) -> None:
        """Forget all writes."""
        self._last.clear()
        self.number = 0

    def _find(self, target: Target) -> _Write | None:
        known = self._last.get(target[0])
        return known.get(target) if known else None

    def _forget_old(self, namespace: str, now: float) -> None:
        found = self._last[namespace]
        while found and not _recent(next(iter(found.values())), now):
            self.forget(next(iter(found)))


def _recent(last: _Write | None, now: float) -> _Write | None:
    return last if last and abs(now - last.at) <= KEPT else None


def _times(last: _Write | None, content: object) -> int:
    """Return how often a write has been undone in a row that follows the `last` one."""
    return last.undone + 1 if last and last.content == content else 0


class RepeatedWrites:
    """The writes that may have to be made again, with those that others have undone or that had a conflict.

    A creation is repeated if the object was created before for the same spec of the job, whatever was done to it in
    between: others may have deleted it, or have made of it what the operator deletes itself.

    `words` says of an action what it does, to what, such as `created` and `Service`.
    """

    def __init__(self, words: Callable[[Action], tuple[str, str]]) -> None:
        self._words = words
        self._written, self._conflicts = UndoneWrites(), UndoneWrites(free=CONFLICTS - 1)
        self._created = UndoneWrites(often=OFTEN)

    def clear(self) -> None:
        """Forget what was written."""
        for known in (self._written, self._conflicts, self._created):
            known.clear()

    def require_lasting(self, snapshot: Snapshot, action: Action) -> None:
        """Raise `Reverted` if the last tries of the same write were of no use, and the next has to wait.

        The deletion of a job is tried in any case: conflicts of it are over once the job is read.
        """
        if isinstance(action, DeleteJob):
            return
        write = _write(snapshot, action)
        if write and self._is_undone(*write, snapshot, action):
            was_deleted = _creates(action) and self._written.last(write[0]) in DELETIONS
            raise Reverted(writes.undone(self._words(action), action.name, by_deletion=was_deleted), UNDONE)
        if self._conflicts.number and self._conflicts.wait(*_try(snapshot, action), snapshot.now.timestamp()) > 0:
            raise self._conflicting(action)

    def failed(self, snapshot: Snapshot, action: Action, error: ApiError) -> ApiError:
        """Remember a conflict; return the error that counts: `Reverted` if there was a conflict each time."""
        if not isinstance(error, Conflict):
            return error
        tried, now = _try(snapshot, action), snapshot.now.timestamp()
        self._conflicts.wrote(*tried, now)
        if isinstance(action, DeleteJob):
            return error
        return self._conflicting(action) if self._conflicts.wait(*tried, now) > 0 else error

    def is_contested(self, snapshot: Snapshot, action: Action) -> bool:
        """Return whether the last CONTESTED tries of the same write each had a conflict."""
        if not self._conflicts.number:
            return False
        return self._conflicts.times(*_try(snapshot, action), snapshot.now.timestamp()) >= CONTESTED

    def wrote(self, snapshot: Snapshot, action: Action) -> None:
        """Remember a write that has succeeded."""
        if write := _write(snapshot, action):
            (target, content), now = write, snapshot.now.timestamp()
            if _creates(action):
                self._written.forget(target)
                self._created.wrote(target, snapshot.job.generation, now)
            else:
                self._written.wrote(target, content, now)
        if self._conflicts.number:
            self._conflicts.forget(_try(snapshot, action)[0])

    def _is_undone(self, target: Target, content: object, snapshot: Snapshot, action: Action) -> bool:
        """Return whether the last writes like this one were undone, and it has to wait."""
        now = snapshot.now.timestamp()
        if _creates(action):
            return self._created.wait(target, snapshot.job.generation, now) > 0
        return self._written.wait(target, content, now) > 0

    def _conflicting(self, action: Action) -> Reverted:
        name = "" if isinstance(action, DeleteJob) else action.name
        return Reverted(writes.conflicting(self._words(action)[1], name), CONFLICTING)


def stops_others(action: Action, error: ApiError) -> bool:
    """Return whether other creations would have the same conflict."""
    return _creates(action) and error.reason == CONFLICTING


def _creates(action: Action) -> bool:
    return isinstance(action, (CreatePod, CreateService, CreateSshSecret, CreateDependent))


def _write(snapshot: Snapshot, action: Action) -> tuple[Target, object] | None:
    """Return the object that an action writes and what it makes of it; None if others see to its repetitions.

    These are pods, and objects that may exist already.
    """
    if isinstance(action, OF_PODS):
        return None
    namespace, uid, content = snapshot.job.namespace, snapshot.job.uid, type(action)
    match action:
        case CreateService(name=name) | DeleteService(name=name):
            return (namespace, (uid, "Service", name)), content
        case ReleasePod(uid=pod):
            return (namespace, (uid, "Pod", pod)), content
        case CreateDependent(shared=False) | DeleteDependent():
            return (namespace, (uid, action.resource.kind, action.name)), content
        case UpdateDependent(resource=resource, name=name, patch=patch):
            return (namespace, (uid, resource.kind, name)), digest_of(patches.without_version(patch))
    return None


def _try(snapshot: Snapshot, action: Action) -> tuple[Target, object]:
    """Return the object that an action concerns and what it makes of it, whatever the version is that it expects."""
    name = "" if isinstance(action, DeleteJob) else action.name
    return _write(snapshot, action) or ((snapshot.job.namespace, (snapshot.job.uid, type(action), name)), None)

"""Writes that have to be made again and again, as others undo or prevent them: each waits longer than the last."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    CreateSshSecret,
    DeleteDependent,
    DeleteJob,
    DeleteService,
    ReleasePod,
    Snapshot,
    UpdateDependent,
)
from trainshed.api.digest import digest_of
from trainshed.client import CONFLICTING, UNDONE, ApiError, Conflict, Reverted

#: Seconds of back-off of a write that was undone twice, doubled from one to the next, and the longest. Once is no
#: reason to wait: people delete a Service by mistake.
FIRST, LONGEST, ONCE = 1.0, 20.0, 1
#: Seconds for which a write is remembered, and how many of all jobs.
KEPT, MOST = 600.0, 20_000
#: Conflicts in a row of the same write, after which the next one waits: their back-off is more than a second together,
#: in which a watch delivers what has changed.
CONFLICTS = 8
CONFLICT = (
    "{} {} cannot be written, as there is a conflict each time: others change it all the time, or an admission webhook"
    " changes what is written, or its watch is late"
)


class _Write(msgspec.Struct, frozen=True):
    content: object
    undone: int
    at: float


class UndoneWrites:
    """The last write to each object, and how often in a row it was made again.

    A write is `undone` if the next one to its object is the same: nothing of the operator has changed it in between.
    `free` is how often it is made again without waiting, and `longest` the most seconds that it waits. Times are in
    seconds; a clock that is set back makes no write wait longer.
    """

    def __init__(self, free: int = ONCE, longest: float = LONGEST) -> None:
        self._free = free
        self._longest = longest
        self._last: OrderedDict[object, _Write] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def wait(self, target: object, content: object, now: float) -> float:
        """Return the seconds for which this write has to wait, at most 0 if it need not."""
        times = self.times(target, content, now)
        if times <= self._free:
            return 0.0
        return min(FIRST * float(1 << min(times - self._free - 1, 30)), self._longest) - abs(
            now - self._last[target].at
        )

    def wrote(self, target: object, content: object, now: float) -> None:
        """Remember a write that has to last."""
        times = self.times(target, content, now)
        self._last.pop(target, None)
        self._last[target] = _Write(content, times, now)
        while len(self._last) > MOST or abs(now - next(iter(self._last.values())).at) > KEPT:
            self._last.popitem(last=False)

    def times(self, target: object, content: object, now: float) -> int:
        """Return how often this write has been undone in a row, 0 if the last one was another or is forgotten."""
        last = self._last.get(target)
        is_same = last is not None and last.content == content and abs(now - last.at) <= KEPT
        return last.undone + 1 if last and is_same else 0

    def forget(self, target: object) -> None:
        """Forget the writes to an object."""
        self._last.pop(target, None)

    def clear(self) -> None:
        """Forget all writes."""
        self._last.clear()


class RepeatedWrites:
    """The writes that may have to be made again, with those that others have undone or that had a conflict."""

    def __init__(self) -> None:
        self._written, self._conflicts = UndoneWrites(), UndoneWrites(free=CONFLICTS - 1)

    def clear(self) -> None:
        """Forget what was written."""
        self._written.clear()
        self._conflicts.clear()

    def require_lasting(self, snapshot: Snapshot, action: Action, words: tuple[str, str]) -> None:
        """Raise `Reverted` if the last tries of the same write were of no use, and the next has to wait.

        `words` are what it does, to what, such as `created` and `Service`.
        The deletion of a job is tried in any case: conflicts of it are over once the job is read.
        """
        if isinstance(action, DeleteJob):
            return
        write, now = _write(snapshot, action), snapshot.now.timestamp()
        if write and self._written.wait(*write, now) > 0:
            what = " ".join((*words, action.name))
            raise Reverted(f"{what}, and another client undoes that each time", UNDONE)
        if self._conflicts and self._conflicts.wait(*_try(snapshot, action), now) > 0:
            raise _conflicting(action, words[1])

    def failed(self, snapshot: Snapshot, action: Action, error: ApiError, words: tuple[str, str]) -> ApiError:
        """Remember a conflict; return the error that counts: `Reverted` if there was a conflict each time."""
        if not isinstance(error, Conflict) or isinstance(action, DeleteJob):
            return error
        tried, now = _try(snapshot, action), snapshot.now.timestamp()
        self._conflicts.wrote(*tried, now)
        return _conflicting(action, words[1]) if self._conflicts.wait(*tried, now) > 0 else error

    def wrote(self, snapshot: Snapshot, action: Action) -> None:
        """Remember a write that has succeeded."""
        if write := _write(snapshot, action):
            self._written.wrote(*write, snapshot.now.timestamp())
        if self._conflicts:
            self._conflicts.forget(_try(snapshot, action)[0])


def stops_others(action: Action, error: ApiError) -> bool:
    """Return whether other creations would have the same conflict."""
    creates = isinstance(action, (CreatePod, CreateService, CreateSshSecret, CreateDependent))
    return creates and error.reason == CONFLICTING


def _write(snapshot: Snapshot, action: Action) -> tuple[object, object] | None:
    """Return the object that an action writes and what it makes of it; None if others see to its repetitions.

    These are pods, which restarts and false starts hold back, and objects that may exist already.
    """
    uid, content = snapshot.job.uid, type(action)
    match action:
        case CreateService(name=name) | DeleteService(name=name):
            return (uid, "Service", name), content
        case ReleasePod(uid=pod):
            return (uid, "Pod", pod), content
        case CreateDependent(shared=False) | DeleteDependent():
            return (uid, action.resource.kind, action.name), content
        case UpdateDependent(resource=resource, name=name, patch=patch):
            metadata = {key: value for key, value in patch["metadata"].items() if key != "resourceVersion"}
            return (uid, resource.kind, name), digest_of({**patch, "metadata": metadata})
    return None


def _try(snapshot: Snapshot, action: Action) -> tuple[object, object]:
    """Return the object that an action concerns and what it makes of it, whatever the version is that it expects."""
    name = "" if isinstance(action, DeleteJob) else action.name
    return _write(snapshot, action) or ((snapshot.job.uid, type(action), name), None)


def _conflicting(action: Action, noun: str) -> Reverted:
    name = "" if isinstance(action, DeleteJob) else action.name
    return Reverted(CONFLICT.format(noun, name), CONFLICTING)

"""When dependents are updated that follow the states of pods: at once, or a little later with those of more pods."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from trainshed.api.actions import Action, CreatePod, UpdateDependent
from trainshed.api.job import JobKey
from trainshed.api.objects import Resource

from .status_writes import DEBOUNCE, MAX_DEBOUNCE


class _Update(msgspec.Struct, frozen=True):
    """The last update that was written, and the one that waits.

    `entered` are the pods that the object may give rights to.
    """

    basis: str
    digest: str
    entered: frozenset[str]
    since: datetime | None = None
    changed: datetime | None = None
    waiting: str = ""


class DependentDebounce:
    """The updates that wait, by job, and the last ones that were written.

    A large job would be written as often as it has pods, each time with the names of all. The first update is never
    put off, nor one that takes a right back, that follows a change of the job, that is complete, or with new pods.
    """

    def __init__(self) -> None:
        self._known: dict[JobKey, dict[tuple[Resource, str], _Update]] = {}

    def due(self, key: JobKey, actions: Iterable[Action], now: datetime) -> tuple[tuple[Action, ...], datetime | None]:
        """Return the actions that are due, and when the first of the others is, None if there is none.

        Beside creations of pods all are due: a new pod must not find what others have written there.
        """
        actions = tuple(actions)
        if not any([isinstance(action, UpdateDependent) for action in actions]):  # noqa: C419 - faster
            return actions, None
        creates = any(isinstance(action, CreatePod) for action in actions)
        ends = [(action, None if creates else self._until(key, action, now)) for action in actions]
        due = tuple(action for action, end in ends if end is None)
        for action in due:
            if isinstance(action, UpdateDependent) and action.pods and (known := self._last(key, action)):
                # The update may be executed though its answer is lost.
                self._known[key][action.resource, action.name] = replace(
                    known, entered=known.entered | action.pods.entered
                )
        return due, min((end for _, end in ends if end), default=None)

    def wrote(self, key: JobKey, action: UpdateDependent) -> None:
        """Remember an update that has succeeded."""
        if action.pods:
            written = _Update(action.pods.basis, action.digest, action.pods.entered)
            self._known.setdefault(key, {})[action.resource, action.name] = written

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Forget all jobs: another replica writes now."""
        self._known.clear()

    def _last(self, key: JobKey, action: UpdateDependent) -> _Update | None:
        return self._known.get(key, {}).get((action.resource, action.name))

    def _until(self, key: JobKey, action: Action, now: datetime) -> datetime | None:
        """Return until when an action waits, None if it does not."""
        if not isinstance(action, UpdateDependent) or action.pods is None or action.pods.complete:
            return None
        known, pods = self._last(key, action), action.pods
        if known is None or known.basis != pods.basis or known.digest == action.digest:
            return None  # the first one, or others have changed the object
        if not known.entered <= pods.entered:
            return None
        since, changed = known.since or now, known.changed
        if changed is None or known.waiting != action.digest:
            changed = now
        waiting = replace(known, since=since, changed=changed, waiting=action.digest)
        self._known[key][action.resource, action.name] = waiting
        end = min(changed + DEBOUNCE, since + MAX_DEBOUNCE)
        return end if end > now else None

"""When a status is written, at once or a little later with changes of many pods, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from trainshed.api import patches, status_codec
from trainshed.api.coerce import as_mapping
from trainshed.api.job import Document, JobKey
from trainshed.api.status import ConditionType, Status
from trainshed.client import StatusReverted
from trainshed.plan.messages.writes import STATUS_OVERWRITTEN

from .undone_writes import CONTESTED, Target, UndoneWrites

#: Counts change often: they are written after they have not changed for DEBOUNCE, and at the latest after MAX_DEBOUNCE.
DEBOUNCE, MAX_DEBOUNCE = timedelta(milliseconds=300), timedelta(seconds=2)
#: The longest delay of the first status of a job: users read it within a second, the write included.
MAX_FIRST_DELAY = timedelta(milliseconds=800)
#: The delay of the first status of a job that is suspended from the start, such as one of a queue. Nothing waits for
#: it, and the client that has just created the job may still write it, at the version that the creation returned.
SUSPENDED_DELAY = timedelta(seconds=1)
#: The shortest time between two writes of the counts of a job that has failed, and the longest delay of a write while
#: pods of it run. Once none runs they are written after DEBOUNCE.
AFTER_FAILURE = timedelta(seconds=60)
#: The shortest time between two writes while many pods are created.
PROGRESS = timedelta(seconds=5)


class _Unstored(msgspec.Struct, frozen=True):
    since: datetime
    changed: datetime
    content: object


class StatusDebounce:
    """Remembers since when each job has an unwritten status, and before which time some are not written again."""

    def __init__(self) -> None:
        self._unstored: dict[JobKey, _Unstored] = {}
        self._not_before: dict[JobKey, tuple[datetime, bool]] = {}
        self._overdue: set[JobKey] = set()

    def until(
        self, key: JobKey, change: tuple[Status, Status], now: datetime, *, creating: bool = False, size: int = 0
    ) -> datetime | None:
        """Return when the second status must replace the first, which is stored; None: now, or nothing has changed.

        After a write that has `failed` the next one does not wait: the back-off says when it is due.

        `creating` is whether many pods are being created, `size` the number of replicas of the job. Once all are ready
        or have succeeded, no further change is to be expected soon, so that the status is written at once.
        """
        stored, wanted = change
        idle = _starts_suspended(stored, wanted)
        if wanted == stored:
            self._overdue.discard(key)
        urgent = not idle and (wanted.must_precede(stored) or _is_urgent(stored, wanted, size))
        urgent = urgent or _is_report(stored, wanted)
        if wanted == stored or urgent or key in self._overdue:
            self._unstored.pop(key, None)
            return None
        content = (wanted.replica_statuses, tuple((condition.type, condition.true) for condition in wanted.conditions))
        known = self._unstored.get(key)
        if known is None or known.content != content:
            known = _Unstored(known.since if known else now, now, content)
            self._unstored[key] = known
        quiet, longest = (SUSPENDED_DELAY, SUSPENDED_DELAY) if idle else _delays(stored, wanted, creating=creating)
        due = min(known.changed + quiet, known.since + longest)
        after, over = self._not_before.get(key, (now, False))
        if over == stored.over and (_active(wanted) or not over):  # the last counts after a failure do not wait
            due = max(due, after)
        if due > now:
            return due
        self._unstored.pop(key, None)
        return None

    def stored(self, key: JobKey, before: Status, now: datetime, *, creating: bool = False) -> None:
        """Remember that a status was stored in place of `before`."""
        self._overdue.discard(key)
        if before.over or creating:
            self._not_before[key] = now + (AFTER_FAILURE if before.over else PROGRESS), before.over
        else:
            self._not_before.pop(key, None)

    def failed(self, key: JobKey) -> None:
        """Remember that a status was to be stored now, and is not."""
        self._overdue.add(key)

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""
        self._overdue.discard(key)
        self._unstored.pop(key, None)
        self._not_before.pop(key, None)


def _starts_suspended(stored: Status, wanted: Status) -> bool:
    """Return whether this is the first status of a job that is suspended and has had no pods: nothing follows from it.

    One that has pods gets a new attempt, also if all of them have ended and hold nothing.
    """
    new = not (stored.conditions or stored.attempts or wanted.attempts)
    return new and wanted.true(ConditionType.SUSPENDED) and not (wanted.over or wanted.holds_resources)


def _is_report(stored: Status, wanted: Status) -> bool:
    """Return whether nothing but the report of the training has changed, for which the planner has waited."""
    return wanted.trainer is not stored.trainer and wanted == replace(stored, trainer=wanted.trainer)


def _is_urgent(stored: Status, wanted: Status, size: int) -> bool:
    return _frees_or_takes(stored, wanted) or _is_complete(wanted, size) > _is_complete(stored, size)


def _frees_or_takes(stored: Status, wanted: Status) -> bool:
    """Return whether a queue must learn that the pods of a job hold resources now, or none any more."""
    pending = any(count.not_running for count in wanted.replica_statuses.values())
    freed = wanted.true(ConditionType.SUSPENDED) and not wanted.holds_resources and stored.holds_resources
    return freed or (pending and not stored.holds_resources)


def _is_complete(status: Status, size: int) -> bool:
    """Return whether all replicas of a job are ready or have succeeded, and the job is not finished."""
    counts = status.replica_statuses.values()
    return not status.over and 0 < size <= sum(count.ready + len(count.done) for count in counts)


def _active(status: Status) -> bool:
    return any(count.active for count in status.replica_statuses.values())


def _delays(stored: Status, wanted: Status, *, creating: bool) -> tuple[timedelta, timedelta]:
    """Return how long a change waits for the next one, and how long changes wait at most."""
    counts = wanted.replica_statuses.values()
    if stored.over:
        return AFTER_FAILURE if _active(wanted) else DEBOUNCE, AFTER_FAILURE
    if creating:  # at once, but not within PROGRESS after the last one
        return timedelta(0), timedelta(0)
    longest = MAX_DEBOUNCE if stored.conditions else MAX_FIRST_DELAY
    # A status without pods can wait for the next change: usually its pods run soon.
    return DEBOUNCE if any(count.active or count.done for count in counts) else longest, longest


#: The fields of a status that v1 has, and so each CRD.
V1_FIELDS = frozenset(("conditions", "replicaStatuses", "startTime", "completionTime"))
#: Conflicts in a row over a job that has not changed, of which the last is no accident: a mutating admission webhook
#: has put another resourceVersion into what was written.
FALSE_CONFLICTS = 3
#: The number of characters of a message that are compared.
MAX_COMPARED_LENGTH = 512


class StatusRejections:
    """The last rejection message for each job."""

    def __init__(self) -> None:
        self._last: dict[JobKey, str] = {}

    def news(self, key: JobKey, message: str) -> bool:
        """Return whether this message differs from the job's last one."""
        before, self._last[key] = self._last.get(key), message[:MAX_COMPARED_LENGTH]
        return before != self._last[key]

    def forget(self, key: JobKey) -> None:
        """Forget a job whose status was stored, or a deleted job."""
        self._last.pop(key, None)


class StatusWrites:
    """The last status that was stored for each job, and how often others have overwritten it in a row."""

    def __init__(self) -> None:
        self._stored: dict[JobKey, Status] = {}
        self._overwritten = UndoneWrites()
        self._conflicts: dict[JobKey, tuple[str, int]] = {}
        self._contested: Counter[JobKey] = Counter()

    def require_lasting(self, key: JobKey, found: Status, now: datetime) -> None:
        """Raise `StatusReverted` if another client has overwritten the last statuses, and the next has to wait."""
        if self._is_overwritten(key, found) and self._overwritten.wait(_target(key), None, now.timestamp()) > 0:
            raise StatusReverted(STATUS_OVERWRITTEN)

    def stored(self, key: JobKey, before: Status, after: Status, now: datetime) -> None:
        """Remember the status `after`, which was stored in place of `before`."""
        if self._is_overwritten(key, before):
            self._overwritten.wrote(_target(key), None, now.timestamp())
        self._stored[key] = after
        self._conflicts.pop(key, None)

    def conflict(self, key: JobKey) -> None:
        """Remember a conflict although the status is the one that was read: others have changed the rest of the job."""
        self._contested[key] += 1

    def settled(self, key: JobKey) -> None:
        """Forget these conflicts: there was none, or others have changed the status."""
        self._contested.pop(key, None)

    def is_contested(self, key: JobKey) -> bool:
        """Return whether each of the last CONTESTED reconciles of a job had such a conflict.

        Others change the job all the time, and could keep it from being suspended or failed. It is read right before
        each write, which leaves them no time.
        """
        return self._contested[key] >= CONTESTED

    def count_conflict(self, key: JobKey, version: str) -> int:
        """Return how often in a row there was a conflict although the job still has the version that was read."""
        last, times = self._conflicts.get(key, (version, 0))
        self._conflicts[key] = version, times + 1 if last == version else 1
        return self._conflicts[key][1]

    def reverted(self, key: JobKey, wanted: Status, now: datetime) -> None:
        """Remember that `wanted` was stored with other values."""
        self._stored[key] = wanted
        self._overwritten.wrote(_target(key), None, now.timestamp())

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""
        self._stored.pop(key, None)
        self._overwritten.forget(_target(key))
        self._conflicts.pop(key, None)
        self.settled(key)

    def _is_overwritten(self, key: JobKey, found: Status) -> bool:
        last = self._stored.get(key, found)
        return last is not found and last != found


def _target(key: JobKey) -> Target:
    return key.namespace, key


def reverted_fields(patch: Document, wanted: Status, document: Document, stored: Status) -> tuple[str, ...]:
    """Return the fields of the status of `document`, the answer to `patch`, whose values a webhook has changed.

    Fields that are missing there may be unknown to the CRD, which is then reported, unless each CRD has them.
    """
    if patches.has_values(as_mapping(document.get("status")), patch["status"]):
        return ()
    asked, got = status_codec.status_document(wanted), status_codec.status_document(stored)
    fields = asked.keys() | got.keys()
    changed = {field for field in fields if not _agree(got.get(field), asked.get(field))}
    return tuple(sorted(changed | (V1_FIELDS & asked.keys() - got.keys())))


def _agree(found: object, wanted: object) -> bool:
    """Return whether what is found has no other values than what is wanted; parts of it may be missing."""
    if found is None:
        return True
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return all(_agree(found.get(key), wanted.get(key)) for key in found.keys() | wanted.keys())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_agree, found, wanted))
    return found == wanted

"""How conditions follow and exclude each other, and when their clocks move (v1's rules, §6.3 of its behaviour)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from trainshed.api.status import Condition, Kind, Status

Conditions = tuple[Condition, ...]

#: Setting the one drops the other.
EXCLUDES = {Kind.RUNNING: Kind.RESTARTING, Kind.RESTARTING: Kind.RUNNING}
VERDICTS = (Kind.SUCCEEDED, Kind.FAILED)
#: Another message of these is news, and with v1 only another reason is.
NEWS = (Kind.BLOCKED, Kind.RESTARTING)


@dataclass(frozen=True, slots=True)
class Word:
    """What a condition is to say."""

    kind: Kind
    reason: str
    message: str


def put(status: Status, word: Word, now: datetime, *, true: bool = True) -> Status:
    """The status with this condition last; nothing changes if it says the same already.

    A verdict ends the running and drops what no longer matters; after a verdict nothing changes any more.
    """
    known = status.condition(word.kind)
    if status.over or (known and _says_the_same(known, word, true=true)):
        return status
    changed = known.changed if known and known.true == true else now
    fresh = Condition(word.kind, true, word.reason, word.message, updated=now, changed=changed)
    kept = without(status, word.kind, EXCLUDES.get(word.kind)).conditions
    if word.kind in VERDICTS:
        kept = _ended(kept)
    return replace(status, conditions=(*kept, fresh))


def without(status: Status, *kinds: Kind | None) -> Status:
    """The status with no condition of these types."""
    kept = tuple(condition for condition in status.conditions if condition.type not in kinds)
    return status if kept == status.conditions else replace(status, conditions=kept)


def _says_the_same(known: Condition, word: Word, *, true: bool) -> bool:
    same = known.true == true and known.reason == word.reason
    return same and (word.kind not in NEWS or known.message == word.message)


def _ended(conditions: Conditions) -> Conditions:
    dropped = (Kind.BLOCKED, Kind.RESTARTING)
    return tuple(
        replace(condition, true=False) if condition.type is Kind.RUNNING else condition
        for condition in conditions
        if condition.type not in dropped
    )

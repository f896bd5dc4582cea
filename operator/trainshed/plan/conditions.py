"""Setting and removing conditions: which exclude each other, and when their times change (v1's rules)."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec.structs import force_setattr, replace

from trainshed.api.foreign_text import one_line
from trainshed.api.status import EXTRA, TERMINAL, Condition, ConditionType, Status

Conditions = tuple[Condition, ...]

#: Setting one of these conditions removes the other.
EXCLUDES = {ConditionType.RUNNING: ConditionType.RESTARTING, ConditionType.RESTARTING: ConditionType.RUNNING}
#: A new message of these updates the condition; in v1, and for the other types, only a new reason does.
MESSAGE_CHANGES_COUNT = (ConditionType.BLOCKED, ConditionType.RESTARTING)
#: The precision of the times in a status.
SECOND = timedelta(seconds=1)
#: A time that is further ahead was not written by an operator whose clock is nearly right.
MAX_CLOCK_SKEW = timedelta(hours=1)


class ConditionUpdate(msgspec.Struct, frozen=True):
    """The type, reason and message of a condition to set; the texts, which may quote others', are made one line."""

    kind: ConditionType
    reason: str
    message: str

    def __post_init__(self) -> None:
        """Make reason and message one printable line."""
        if not (self.reason.isprintable() and self.message.isprintable()):
            force_setattr(self, "reason", one_line(self.reason))
            force_setattr(self, "message", one_line(self.message))


def set_condition(status: Status, update: ConditionUpdate, now: datetime, *, true: bool = True) -> Status:
    """Return the status with this condition last, or unchanged if it has the same condition already.

    Conditions that v1 does not have come after v1's. One of v1's that becomes true is newer than the others, by a
    second at least: clients of v1, such as Flyte and OpenShift AI's dashboard, take the one with the newest transition.
    A terminal condition sets Running to false and removes Blocked, Restarting and the one that announced it. After a
    terminal condition nothing changes any more.
    """
    known = status.condition(update.kind)
    if status.over or (known and _unchanged(known, update, true=true)):
        return status
    changed = known.changed if known and known.true == true else _transition(status, update.kind, now)
    condition = Condition(update.kind, true, update.reason, update.message, updated=now, changed=changed)
    kept = remove_conditions(status, update.kind, EXCLUDES.get(update.kind)).conditions
    if update.kind in TERMINAL:
        kept = _after_terminal(kept)
    found = (*kept, condition)
    if update.kind not in EXTRA and kept and kept[-1].type in EXTRA:
        found = tuple(sorted(found, key=lambda item: item.type in EXTRA))
    return replace(status, conditions=found)


def _transition(status: Status, kind: ConditionType, now: datetime) -> datetime:
    """Return the time of a transition of this condition: now, or a second after the newest true one of v1's."""
    if kind in EXTRA:
        return now
    newest = max((item.changed for item in status.conditions if item.true and item.type not in EXTRA), default=None)
    if newest is None or newest - now > MAX_CLOCK_SKEW:
        return now
    return max(now, newest.replace(microsecond=0) + SECOND)


def with_state(status: Status) -> Status:
    """Return the status with the state and reason that its conditions give, and nothing waiting if it has no pods.

    A job that does not run is not Stalled.
    """
    if not status.true(ConditionType.RUNNING):
        status = remove_conditions(status, ConditionType.STALLED)
    found = status.decisive
    state, reason = (str(found.type), found.reason) if found else ("", "")
    waiting = () if status.over or status.true(ConditionType.SUSPENDED) else status.waiting
    if (status.state, status.reason, status.waiting) == (state, reason, waiting):
        return status
    return replace(status, state=state, reason=reason, waiting=waiting)


def set_message(status: Status, kind: ConditionType, message: str, now: datetime) -> Status:
    """Return the status with this message in a condition that it has; the order and all else stay."""
    conditions = tuple(
        replace(condition, message=message, updated=now)
        if condition.type is kind and condition.message != message
        else condition
        for condition in status.conditions
    )
    return status if conditions == status.conditions else replace(status, conditions=conditions)


def set_addition(status: Status, update: ConditionUpdate, addition: str, now: datetime) -> Status:
    """Return the status with the addition after the message of a condition, or without an earlier one if it is ""."""
    if addition:
        return set_message(status, update.kind, f"{update.message} {addition}", now)
    known = status.condition(update.kind)
    added = known is not None and known.message.startswith(f"{update.message} ")
    return set_message(status, update.kind, update.message, now) if added else status


def remove_conditions(status: Status, *kinds: ConditionType | None) -> Status:
    """Return the status without conditions of these types."""
    kept = tuple(condition for condition in status.conditions if condition.type not in kinds)
    return status if kept == status.conditions else replace(status, conditions=kept)


def _unchanged(known: Condition, update: ConditionUpdate, *, true: bool) -> bool:
    same = known.true == true and known.reason == update.reason
    return same and (update.kind not in MESSAGE_CHANGES_COUNT or known.message == update.message)


def _after_terminal(conditions: Conditions) -> Conditions:
    dropped = (ConditionType.BLOCKED, ConditionType.STALLED, ConditionType.RESTARTING, *TERMINAL.values())
    return tuple(
        replace(condition, true=False) if condition.type is ConditionType.RUNNING else condition
        for condition in conditions
        if condition.type not in dropped
    )

"""Whether the training of a job hangs, by the signs that there are, and the restart of one that does.

Without a sign nothing is concluded, and each sign can refute the other: a new step shows that ranks do not wait for
each other without end, and a count that moves shows that a step merely takes long. Both are of this attempt: what was
reported before the last container started says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from trainshed.api.actions import Snapshot
from trainshed.api.objects import Phase, Pod
from trainshed.api.signs import LateRank, Operations, Signs, Steps
from trainshed.api.status import MAX_STRAGGLERS, ConditionType, Failure, Status, Straggler

from . import conditions
from .conditions import ConditionUpdate
from .facts import Facts
from .failures import HANG
from .messages import standstill
from .restarts import FailureGroup

#: A step is late after so many times its usual length, or the usual time between two reports of new ones, however short
#: the deadline is; and not before the floor.
MEDIANS, FLOOR = 5, timedelta(seconds=30)
#: How long a restart waits for the stacks of all ranks: longer than they are asked for.
DIAGNOSIS = timedelta(seconds=90)


def with_stalled(facts: Facts, status: Status) -> Status:
    """Return the status with the condition Stalled, or without it once it is refuted.

    It gets what the ranks do once that is known: so it is stored before a restart, and no other process asks again.
    """
    facts = facts.after(status) if facts.job.hang_deadline is not None else facts
    if (update := _stalled(facts)) is not None:
        return _with_stacks(facts, conditions.set_condition(status, update, facts.now))
    known = status.condition(ConditionType.STALLED)
    if known is None or not _may_hang(facts) or _is_refuted(facts, known.changed):
        return conditions.remove_conditions(status, ConditionType.STALLED)
    return _with_stacks(facts, status)


def with_stragglers(snapshot: Snapshot, status: Status) -> Status:
    """Return the status with the ranks that are behind in a hang, or lag though the job advances; they go with it.

    That is not worth a write of its own while the training reports its progress: that is stored often enough.
    """
    operations, stands = snapshot.signs.operations, status.true(ConditionType.STALLED)
    if stands and (late := _behind(snapshot.signs)):
        return replace(status, stragglers=late)
    if not status.true(ConditionType.RUNNING) or stands != snapshot.status.true(ConditionType.STALLED):
        return replace(status, stragglers=()) if status.stragglers else status
    if stands:
        return status
    if operations is None or operations.slow is None or (status == snapshot.status and status.trainer is not None):
        return status
    found = _named(operations.slow)
    return status if found == status.stragglers else replace(status, stragglers=found)


def next_check(facts: Facts) -> datetime | None:
    """Return when the next step will be late, or a hang may be believed that another process has noticed; or None."""
    if not _may_hang(facts):
        return None
    signs, known = facts.snapshot.signs, facts.status.true(ConditionType.STALLED)
    steps, deadline = facts.once(_steps), timedelta(seconds=facts.job.hang_deadline or 0)
    times = [_due(facts, steps)] if steps else []
    if signs.watched and known and facts.job.restarts_when_hung:
        times += [signs.watched + deadline, *((_diagnosed_by(facts),) if signs.asks else ())]
    return min((time for time in times if time > facts.now), default=None)


def failure_group(facts: Facts) -> FailureGroup | None:
    """Return the hang as the failure of the replica that is behind, or of the job if that is not known.

    It is None if the job is not to be restarted.
    The condition is stored already: so what was known of the hang is kept, and was said, before it is gone. If another
    process has noticed it, this one listens for as long as the deadline first. So are the stacks of its ranks, if they
    can be had.
    """
    known, signs = facts.status.condition(ConditionType.STALLED), facts.snapshot.signs
    if not (known and known.true and facts.job.restarts_when_hung and _may_hang(facts)):
        return None
    deadline = timedelta(seconds=facts.job.hang_deadline or 0)
    is_old = signs.watched is not None and signs.watched + deadline <= facts.now
    if _stalled(facts) is None and (not is_old or _is_refuted(facts, known.changed)):
        return None
    if facts.snapshot.signs.asks and not standstill.is_diagnosed(known) and facts.now < _diagnosed_by(facts):
        return None
    late = _culprit(facts)
    pod, node = (late.name, late.node) if late else ("", "")
    failure = Failure(pod, HANG, "NoProgress", None, node, standstill.as_failure(known), facts.now)
    replica = next((one for one, found in facts.current.items() if found is late), next(iter(facts.current)))
    return FailureGroup({replica: failure}, counted=1, together=True)


def _may_hang(facts: Facts) -> bool:
    """Return whether a hang is looked for, and the job runs as a whole, so that no other cause is known."""
    status, pods = facts.status, facts.current.values()
    if facts.job.hang_deadline is None or status.true(ConditionType.BLOCKED) or not status.true(ConditionType.RUNNING):
        return False
    return bool(pods) and not any(pod.debugged or pod.phase is Phase.PENDING for pod in pods)


def _stalled(facts: Facts) -> ConditionUpdate | None:
    """Return the condition Stalled if the signs show it now."""
    return facts.once(_found_stalled)


def _found_stalled(facts: Facts) -> ConditionUpdate | None:
    if not _may_hang(facts):
        return None
    steps, operations = facts.once(_steps), facts.once(_operations)
    late = steps if steps and facts.now >= _due(facts, steps) else None
    still = operations if operations and operations.hang else None
    if still and steps and steps.advanced > still.moved:
        still = None
    if not (late or still):
        return None
    return standstill.stalled(late, still, tuple(standstill.apart(facts)), asks=facts.snapshot.signs.asks)


def _is_refuted(facts: Facts, since: datetime) -> bool:
    """Return whether anything has moved, or begun again, since this time."""
    steps, operations, begun = facts.once(_steps), facts.once(_operations), facts.once(_begun)
    moved = (steps and steps.advanced, operations and not operations.hang and operations.moved, begun)
    return any(time and time > since for time in moved)


def _with_stacks(facts: Facts, status: Status) -> Status:
    """Return the status with the stacks of this hang in its condition Stalled, once they are known."""
    known, found = status.condition(ConditionType.STALLED), facts.snapshot.signs.stacks
    if known is None or found is None or found.hang != known.changed or standstill.is_diagnosed(known):
        return status
    message = standstill.with_stacks(known.message, found)
    return conditions.set_message(status, ConditionType.STALLED, message, facts.now)


def _diagnosed_by(facts: Facts) -> datetime:
    """Return until when a restart waits for the stacks, at most."""
    known, watched = facts.status.condition(ConditionType.STALLED), facts.snapshot.signs.watched
    times = (known.changed if known else None, watched)
    return max((time for time in times if time), default=facts.now) + DIAGNOSIS


def _due(facts: Facts, steps: Steps) -> datetime:
    """Return when the next step, or failing that an operation of a rank, is late."""
    usual = timedelta(seconds=MEDIANS * max(steps.median_seconds, steps.gap_seconds))
    operations = facts.once(_operations)
    is_moving = operations is not None and not operations.hang
    last = max(steps.advanced, operations.moved) if operations and is_moving else steps.advanced
    return last + max(timedelta(seconds=facts.job.hang_deadline or 0), usual, FLOOR)


def _steps(facts: Facts) -> Steps | None:
    steps = facts.snapshot.signs.steps
    return steps if steps and _is_of_this_run(facts, steps.advanced) else None


def _operations(facts: Facts) -> Operations | None:
    found = facts.snapshot.signs.operations
    return found if found and _is_of_this_run(facts, found.moved) else None


def _is_of_this_run(facts: Facts, time: datetime) -> bool:
    begun = facts.once(_begun)
    return begun is None or time >= begun


def moved(facts: Facts) -> tuple[datetime, ...]:
    """Return when the job last had a new step, and an operation of its ranks, as far as that is known."""
    steps, operations = facts.once(_steps), facts.once(_operations)
    return (*((steps.advanced,) if steps else ()), *((operations.moved,) if operations else ()))


def _begun(facts: Facts) -> datetime | None:
    """Return when the last of the framework's containers started, None if that is not known."""
    own = (facts.own_container(pod) for pod in facts.current.values())
    return max((container.started for container in own if container and container.started), default=None)


def _behind(signs: Signs) -> tuple[Straggler, ...]:
    """Return the ranks that are behind in a hang, as far as that is known: by their counts, or by their stacks."""
    if signs.operations and (late := standstill.behind(signs.operations)):
        return _named(late)
    one = standstill.alone(signs.stacks) if signs.stacks else None
    return (Straggler(one.rank, one.pod, one.node),) if one else ()


def _named(late: Sequence[LateRank]) -> tuple[Straggler, ...]:
    """Return the first of these ranks, those that lag most, in their order."""
    worst = sorted(late[:MAX_STRAGGLERS], key=lambda one: one.rank)
    return tuple(Straggler(one.rank, one.pod, one.node) for one in worst)


def _culprit(facts: Facts) -> Pod | None:
    """Return the pod of the rank that lags most, or else that alone does not wait for others; None without a sign.

    Steps show that the job hangs and not which rank: the replica that reports them waits for the others, too.
    """
    operations, stacks = facts.snapshot.signs.operations, facts.snapshot.signs.stacks
    late = operations.late[0].pod if operations and operations.late else ""
    if not late and stacks and (alone := standstill.alone(stacks)):
        late = alone.pod
    return next((pod for pod in facts.current.values() if late and pod.name == late), None)

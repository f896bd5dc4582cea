"""The condition Stalled and its Events: what does not move, since when, and who is behind; or that nothing is known."""

from __future__ import annotations

from datetime import datetime
from statistics import median

from trainshed.api import coerce
from trainshed.api.actions import Event, EventType
from trainshed.api.signs import LateRank, Operations, Steps
from trainshed.api.status import MAX_MESSAGE_BYTES, Condition, ConditionType
from trainshed.plan.conditions import ConditionUpdate
from trainshed.plan.facts import Facts

from .phrases import duration, enumeration, plural

#: The most ranks that are named, and how many medians a rank lags that is named before others that lag.
MOST_NAMED, MEDIANS = 3, 2


def stalled(facts: Facts, late: Steps | None, still: Operations | None) -> ConditionUpdate:
    """Return the condition for steps that are late, ranks that wait for each other, or both."""
    parts = [*([_late(facts, late)] if late else []), *([_still(facts, still)] if still else [])]
    message = coerce.truncate_end("; ".join(parts), MAX_MESSAGE_BYTES)
    return ConditionUpdate(ConditionType.STALLED, "RanksWait" if still else "NoStep", message)


def event(facts: Facts, condition: Condition) -> Event:
    """Return the Event of a job that has turned Stalled."""
    return Event(EventType.WARNING, f"{facts.job.kind}Stalled", f"{condition.reason}: {condition.message}")


def unheard(error: str, *, supported: bool) -> Event:
    """Return the Event that this error is all that NCCL's RAS says, or that the version of NCCL is not supported."""
    reason = "NCCLRASNotReachable" if supported else "NCCLRASNotSupported"
    message = f"NCCL's RAS says nothing of the ranks, so that only reported steps show whether they hang: {error}"
    return Event(EventType.WARNING, reason, message, key=reason)


def _late(facts: Facts, steps: Steps) -> str:
    last = f"the last, step {steps.step}, was at {coerce.format_time(steps.advanced)}"
    usual = f"a step takes {steps.median_seconds:.3g} s as a rule, and is reported every {steps.gap_seconds:.3g} s"
    return f"no step for {_age(facts, steps.advanced)}: {last}; {usual}"


def _still(facts: Facts, found: Operations) -> str:
    head = f"NCCL RAS: no count has moved for {_age(facts, found.moved)}, in {plural(found.polls, 'answer')}"
    return f"{head}; {_who(found)}" if found.late else head


def _who(found: Operations) -> str:
    """Return who is behind: of many those that lag more than the others do as a rule, or else how many."""
    lags = [one.most - one.count for one in found.late] + [0] * (found.ranks - len(found.late))
    outliers = [one for one in found.late if one.most - one.count > MEDIANS * median(lags)]
    if not outliers:
        return f"{len(found.late)} of {plural(found.ranks, 'rank')} are behind, such as {_rank(found.late[0])}"
    names = enumeration([_rank(one) for one in outliers], MOST_NAMED)
    return f"behind the other ranks: {names}"


def _rank(one: LateRank) -> str:
    where = f"{one.pod} on {one.node}" if one.pod else f"on {one.node}" if one.node else f"host {one.host}"
    return f"rank {one.rank} ({where}, pid {one.pid}, {one.operation} {one.count} of {one.most})"


def _age(facts: Facts, time: datetime) -> str:
    return duration(round((facts.now - time).total_seconds()))

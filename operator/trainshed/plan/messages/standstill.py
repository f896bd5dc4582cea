"""The condition Stalled and its Events: what does not move, since when, and who is behind; or that nothing is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from trainshed.api import coerce, foreign_text
from trainshed.api.actions import Event, EventType
from trainshed.api.job import ASIDE
from trainshed.api.signs import LateRank, Operations, RankAt, StackGroup, Stacks, Steps
from trainshed.api.status import MAX_MESSAGE_BYTES, Condition, ConditionType
from trainshed.plan.conditions import ConditionUpdate
from trainshed.plan.facts import Facts

from .phrases import enumeration, plural

#: The most ranks that are named, and how many medians a rank lags that is named before others that lag.
MOST_NAMED, MEDIANS = 3, 2
#: What stands before the stacks in the condition, and the most bytes of them.
STACKS, MOST_STACKS = "; stacks: ", 480
#: What is said where nothing shows who is behind, until the stacks are known.
UNKNOWN = "; which rank is behind is not known"


def stalled(late: Steps | None, still: Operations | None, apart: Sequence[str], *, asks: bool) -> ConditionUpdate:
    """Return the condition for steps that are late, ranks that wait for each other, or both.

    `apart` says which replicas do not do what the others do. It is said that nothing is known to be behind unless this
    process `asks` for the stacks. The message is read long after it is written: so it has the times since when nothing
    moves, and not how long ago they were.
    """
    parts = [*([_late(late)] if late else []), *([_still(still)] if still else [])]
    who = "; ".join(apart[:MOST_NAMED])
    is_known = bool(who or asks or (still and still.late))
    end = f"; {who}" if who else "" if is_known else UNKNOWN
    room = MAX_MESSAGE_BYTES - len(end.encode())
    message = f"{coerce.truncate_end('; '.join(parts), room)}{end}"
    return ConditionUpdate(ConditionType.STALLED, "RanksWait" if still else "NoStep", message)


def apart(facts: Facts) -> Iterator[str]:
    """Yield which replicas with ranks have ended or are not ready, while others are ready and may wait for them."""
    ranked = {replica: pod for replica, pod in facts.current.items() if replica.role not in ASIDE}
    for replica, pod in ranked.items() if any(map(facts.is_ready, ranked.values())) else ():
        where = f"{replica}{f' on {pod.node}' if pod.node else ''}"
        if pod.over:
            own = facts.own_container(pod)
            since = f" since {coerce.format_time(own.finished)}" if own and own.finished else ""
            yield f"{where} has ended{since}, and others run"
        elif not facts.is_ready(pod):
            yield f"{where} is not ready"


def is_unknown(condition: Condition) -> bool:
    """Return whether a condition Stalled says that it is not known who is behind."""
    return UNKNOWN in condition.message


def event(facts: Facts, condition: Condition) -> Event:
    """Return the Event of a job that has turned Stalled."""
    return Event(EventType.WARNING, f"{facts.job.kind}Stalled", f"{condition.reason}: {condition.message}")


def is_diagnosed(condition: Condition) -> bool:
    """Return whether a condition Stalled has what the ranks were doing, or why that is not known."""
    return STACKS in condition.message


def with_stacks(message: str, found: Stacks) -> str:
    """Return the message of the condition with what the ranks are doing."""
    message = message.replace(UNKNOWN, "")
    text = f"{STACKS}{coerce.truncate_end(foreign_text.one_line(_stacks(found)), MOST_STACKS)}"
    return f"{coerce.truncate_end(message, MAX_MESSAGE_BYTES - MOST_STACKS - 2 * len(STACKS))}{text}"


def as_failure(condition: Condition) -> str:
    """Return the message in lines, that of the evidence last, as a traceback ends with the error."""
    evidence, mark, found = condition.message.replace(UNKNOWN, "").partition(STACKS)
    return f"{STACKS.removeprefix('; ')}{found}\n{evidence}" if mark else evidence


def stacks_event(facts: Facts, condition: Condition) -> Event:
    """Return the Event that it is known now what the ranks do."""
    message = condition.message.partition(STACKS)[2]
    return Event(EventType.WARNING, f"{facts.job.kind}Stalled", f"{STACKS.removeprefix('; ')}{message}")


def unheard(error: str, *, supported: bool) -> Event:
    """Return the Event that this error is all that NCCL's RAS says, or that the version of NCCL is not supported."""
    reason = "NCCLRASNotReachable" if supported else "NCCLRASNotSupported"
    message = f"NCCL's RAS says nothing of the ranks, so that only reported steps show whether they hang: {error}"
    return Event(EventType.WARNING, reason, message, key=reason)


def _late(steps: Steps) -> str:
    usual = f"a step takes {steps.median_seconds:.3g} s as a rule, and is reported every {steps.gap_seconds:.3g} s"
    return f"no step since step {steps.step} at {coerce.format_time(steps.advanced)}; {usual}"


def _still(found: Operations) -> str:
    head = f"NCCL RAS: no count has moved since {coerce.format_time(found.moved)}, in {plural(found.polls, 'answer')}"
    return f"{head}; {_who(found)}" if found.late else head


def _who(found: Operations) -> str:
    """Return who is behind, or else how many are."""
    if not (outliers := behind(found)):
        return f"{len(found.late)} of {plural(found.ranks, 'rank')} are behind, such as {_rank(found.late[0])}"
    names = enumeration([_rank(one) for one in outliers], MOST_NAMED)
    return f"behind the other ranks: {names}"


def behind(found: Operations) -> list[LateRank]:
    """Return the ranks that are behind: of many those that lag more than the others do as a rule."""
    if len(found.late) == 1:
        return list(found.late)
    lags = [one.most - one.count for one in found.late] + [0] * (found.ranks - len(found.late))
    return [one for one in found.late if one.most - one.count > MEDIANS * median(lags)]


def alone(found: Stacks) -> RankAt | None:
    """Return the one rank that does something else than to wait for the others; None if there is none."""
    is_alone = len(found.groups) > 1 and found.groups[0].count == 1
    return found.groups[0].ranks[0] if is_alone else None


def _stacks(found: Stacks) -> str:
    """Return where the ranks are: first those that do not answer, then those that do not wait for others."""
    return found.error or "; ".join(map(_group, found.groups[:MOST_NAMED]))


def _group(group: StackGroup) -> str:
    first = f"rank {group.ranks[0].rank} ({_where(group.ranks[0])})"
    is_one, who = group.count == 1, plural(group.count, "rank")
    who = first if is_one else who if group.waits else f"{who}, such as {first},"
    if not group.place:
        return f"{who} {'has' if is_one else 'have'} not answered"
    return f"{who} {'is' if is_one else 'are'} in {group.place}{f' by {group.by}' if group.by else ''}"


def _where(one: LateRank | RankAt) -> str:
    on = f"on {one.node}" if one.node else ""
    return " ".join(filter(None, (one.pod, on))) or f"host {one.host}"


def _rank(one: LateRank) -> str:
    return f"rank {one.rank} ({_where(one)}, pid {one.pid}, {one.operation} {one.count} of {one.most})"

"""How far the training of a job has come, whether it stands still, and whether its deadline comes before its end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from trainshed.api.status import ConditionType, Status
from trainshed.api.time_spent import JobPhase
from trainshed.api.training import DIGITS, EPOCH, STEP, TOTAL
from trainshed.plan.facts import Facts

from .durations import human

#: The most metrics of a training in a sentence.
SHOWN_METRICS = 4


def lines(facts: Facts) -> Iterator[str]:
    """Yield how far the training has come, by its last report, and which ranks slow it down."""
    yield from _reported(facts)
    for name in () if facts.status.true(ConditionType.STALLED) else _ranks_behind(facts):
        yield f"{name} lags behind the others, which wait for it"


def _ranks_behind(facts: Facts) -> Iterator[str]:
    for one in facts.status.stragglers:
        where = " on ".join(filter(None, (one.pod, one.node)))
        yield f"rank {one.rank}{f' ({where})' if where else ''}"


def _reported(facts: Facts) -> Iterator[str]:
    report, over = facts.status.trainer, facts.status.over or facts.status.true(ConditionType.SUSPENDED)
    if report is None:
        return
    of = f" of {report.total_steps}" if report.total_steps else ""
    place = f" at step {report.step}{of}" if report.step is not None else ""
    place += f"{' in' if place else ' at'} epoch {report.epoch:g}" if report.epoch is not None else ""
    if report.percentage is not None:
        place += f" ({report.percentage} %)" if place else f" at {report.percentage} %"
    left, age = report.remaining_seconds if facts.status.trains else None, facts.now - report.updated
    found = [f"{name} {_short(value)}" for name, value in report.metrics if name not in (*STEP, *TOTAL, *EPOCH)]
    metrics = ", ".join(found[:SHOWN_METRICS])
    parts = (
        f"Training {'was' if over else 'is'}{place}" if place else "",
        f", about {human(left - age.total_seconds())} remain" if place and left is not None else "",
        f"{'; ' if place else ''}{metrics}" if metrics else "",
        f"; last report {_ago(facts, report.updated)} ago.",
    )
    yield "".join(parts)


def _short(value: str) -> str:
    """Return a number with the digits that a reader compares, anything else as it is."""
    try:
        return f"{float(value):.4g}" if len(value) > DIGITS + len("0.") else value
    except ValueError:
        return value


def stalled(facts: Facts) -> Iterator[str]:
    """Yield for how long the training has not advanced, and by what that is known, which was seen some time later.

    The ranks that are behind come first, if they are known.
    """
    found, begin = facts.status.condition(ConditionType.STALLED), still_since(facts)
    if found and begin:
        for name in _ranks_behind(facts):
            yield f"{name} is behind, and the others wait for it"
        yield f"no progress for {_ago(facts, begin)}, noticed {_ago(facts, found.changed)} ago: {found.message}"


def still_since(facts: Facts) -> datetime | None:
    """Return when a job that is Stalled made progress last, as its time is counted, or else when that was noticed."""
    spent, found = facts.status.time_spent, facts.status.condition(ConditionType.STALLED)
    if found is None or not found.true:
        return None
    return spent.since if spent.phase is JobPhase.STALLED and spent.since else found.changed


#: A deadline is too early by so many seconds at least, and by such a share of the time that remains: less is no news.
LEAST, SHARE = 60, 0.05
#: A longer deadline has a reserve, and is rounded up to whole ten minutes.
RESERVE, ROUND = 1.1, 600


def deadline(facts: Facts) -> Iterator[str]:
    """Yield that activeDeadlineSeconds stops the job before its training ends, if it goes on at its pace."""
    status, seconds = facts.status, facts.job.policy.deadline
    early = seconds_missing(status, seconds)
    if early and seconds and status.start:
        left = seconds - (facts.now - status.start).total_seconds()
        times = f"the job is stopped in {human(left)}, and the training needs about {human(left + early)} more"
        yield f"{miss(status, seconds)}: {times}"


def miss(status: Status, seconds: int | None) -> str:
    """Return by how much a deadline of so many seconds comes too early, in words that stay true; empty if it does not.

    It says nothing of a job of which no time that remains is known.
    """
    early = seconds_missing(status, seconds)
    return f"activeDeadlineSeconds stops it about {human(early)} before its training ends" if early else ""


def seconds_missing(status: Status, seconds: int | None) -> int:
    """Return by how much a training will probably last longer than its job may; 0 if that is not so, or not known."""
    report, start = status.trainer, status.start
    remaining = report.remaining_seconds if report else None
    if not seconds or start is None or report is None or remaining is None:
        return 0
    early = int((report.updated - start).total_seconds()) + remaining - seconds
    goes_on = status.trains and status.true(ConditionType.RUNNING)
    return early if goes_on and early >= max(LEAST, SHARE * remaining) else 0


def enough(seconds: int) -> int:
    """Return a deadline for a job that lasts for so many seconds."""
    return math.ceil(seconds * RESERVE / ROUND) * ROUND


def _ago(facts: Facts, time: datetime) -> str:
    return human((facts.now - time).total_seconds())

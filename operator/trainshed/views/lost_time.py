"""How much of its time a job has run, and what has taken the rest, in a sentence and in the cells of tables."""

from __future__ import annotations

from datetime import datetime

from trainshed.api.status import Status
from trainshed.api.time_spent import ADMITTED, STARTING, WAITING, JobPhase

from .durations import human

#: The time since admission from which on it is said what the start has taken, in seconds, and shares of it that are
#: not shown without a failure: of a job that has hardly run yet, and of one that has run nearly all the time.
SHOWN_FROM, ALMOST_NONE, ALMOST_ALL = 600, 1, 95
#: What is not known of a job whose steps are not.
SINCE_CHECKPOINT = ", besides the training since the last checkpoints"


def shares(status: Status, now: datetime) -> tuple[str, str]:
    """Return availability and goodput until now, each empty if it is not known."""
    spent = status.time_spent.until(now)
    return _percent(spent.availability), _percent(spent.goodput if status.steps_known else None)


def sentence(status: Status, now: datetime) -> str:
    """Return where the time of a job has gone; empty if there is little to say.

    That is so if it has not restarted yet, and is young or has run nearly all the time or not at all.
    """
    spent = status.time_spent.until(now)
    admitted, restarts = spent.total(*ADMITTED), spent.total(JobPhase.RESTART)
    availability, goodput, hung = *shares(status, now), spent.total(JobPhase.STALLED)
    restarted = status.time_spent.total(JobPhase.RESTART) and (status.recent_restarts or status.retries.total)
    is_slow = admitted >= SHOWN_FROM and ALMOST_NONE <= (spent.availability or 0) < ALMOST_ALL
    if not (restarted or spent.lost_work or hung or is_slow):
        return ""
    parts = (
        f"all replicas ran for {availability} of {human(admitted)}",
        (start := spent.total(*STARTING)) and f"its start took {human(start)}",
        (begin := spent.total(JobPhase.PROGRAM_STARTUP)) and f"its programs started for {human(begin)}",
        hung and f"it made no progress for {human(hung)}",
        restarts and f"restarts took {human(restarts)}{'' if status.steps_known else SINCE_CHECKPOINT}",
        spent.lost_work and f"training that was done again took {human(spent.lost_work)}",
        goodput and f"goodput {goodput}",
        (waited := spent.total(*WAITING)) and f"not lost in a queue or suspended: {human(waited)}",
    )
    return "; ".join(str(part) for part in parts if part)


def _percent(share: int | None) -> str:
    return "" if share is None else f"{share}%"

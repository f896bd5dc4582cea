"""Until when new pods of a job wait that was suspended or scaled down a moment ago.

Each change of `suspend` or `replicas` may create and delete as many pods and Services as the job has. A client that
changes them back and forth within seconds gets the first ones after a second, and the next ones later.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from trainshed.api.status import ConditionType

from .facts import Facts
from .retry_delay import BASE_DELAY

#: The number of seconds after a suspension or scaling down in which new pods wait, and the longest that they wait.
QUICK_TOGGLE = 10


def earliest_resume(facts: Facts) -> datetime | None:
    """Return when a resumed job may get pods: None for at once, later if it was suspended a moment ago."""
    suspended = facts.status.condition(ConditionType.SUSPENDED)
    quickly = suspended is not None and facts.now - suspended.changed < timedelta(seconds=QUICK_TOGGLE)
    return facts.now + timedelta(seconds=BASE_DELAY) if quickly and facts.status.attempts else None


def earliest_creation(facts: Facts) -> datetime | None:
    """Return until when new pods wait after the job was scaled down or suspended, None if they need not.

    They wait until the spec has not changed for a moment, and after several scale-downs in a row longer; but never
    longer than `QUICK_TOGGLE` after the last one, so that one that is scaled up later does not wait at all.
    """
    last = facts.snapshot.scale_down
    if last is None or not facts.missing:
        return None
    quiet = last.changed + timedelta(seconds=BASE_DELAY)
    again = last.time + timedelta(seconds=BASE_DELAY << min(last.count - 1, QUICK_TOGGLE))
    end = min(max(quiet, again), last.time + timedelta(seconds=QUICK_TOGGLE))
    return end if timedelta(0) < end - facts.now <= timedelta(seconds=QUICK_TOGGLE) else None

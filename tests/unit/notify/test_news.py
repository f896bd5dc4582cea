"""A state is sent once, and a job that restarts again and again is sent of rarely."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from trainshed.api.status import Condition, ConditionType, Status
from trainshed.config import NOTIFY_STATES
from trainshed.notify.news import MAX_AGE, TOGETHER, News, Notified, current, due, notified_document, parse_notified

T0 = datetime(2026, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def a_status(*kinds: ConditionType, since: datetime = T0, before: tuple[ConditionType, ...] = ()) -> Status:
    """A status with these conditions true, and others that have been."""
    return Status(conditions=tuple(Condition(kind, kind in kinds, "", "", since, since) for kind in (*before, *kinds)))


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status(), None),
        (a_status(ConditionType.CREATED), None),
        (a_status(ConditionType.CREATED, ConditionType.BLOCKED), None),
        (a_status(ConditionType.RUNNING), "Running"),
        (a_status(ConditionType.RUNNING, ConditionType.STALLED), "Stalled"),
        (a_status(ConditionType.RUNNING, before=(ConditionType.STALLED,)), "Running"),
        (a_status(ConditionType.SUSPENDED), None),
        (a_status(ConditionType.SUSPENDED, before=(ConditionType.RUNNING,)), "Suspended"),
        (a_status(ConditionType.RESTARTING), "Restarting"),
        (a_status(ConditionType.FAILED, ConditionType.STALLED), "Failed"),
    ],
)
def test_current_returns_the_state_of_which_a_message_is_sent(status: Status, state: str | None):
    found = current(status)
    assert (found.state if found else None) == state


def test_a_job_that_crashes_for_hours_has_few_messages_in_ten_minutes():
    last, times = None, []
    for minute in range(240):
        now = T0 + minute * MINUTE
        news = News("Restarting" if minute % 3 else "Running", now)
        when = due(news, last, now, NOTIFY_STATES)
        if when and when <= now:
            last = parse_notified({"status": {"notified": notified_document(news, "x", last, now)}})
            times.append(now)
    assert 20 < len(times) <= 2 * 240 / 10
    assert all(sum(start <= time < start + TOGETHER for time in times) <= 3 for start in times)


@pytest.mark.parametrize(
    ("news", "last", "wait"),
    [
        (News("Running", T0), None, timedelta(0)),
        (News("Running", T0), Notified("Running", T0 - MINUTE, "x"), None),
        (News("Failed", T0), Notified("Failed", T0, "x"), None),
        (News("Failed", T0), Notified("Running", T0, "x", T0), timedelta(0)),
        (News("Suspended", T0), Notified("Suspended", T0 - MINUTE, "x"), timedelta(0)),
        (News("Restarting", T0), Notified("Running", T0, "x", T0 - MINUTE), TOGETHER - MINUTE),
        (News("Restarting", T0), Notified("Running", T0, "x", T0 - 2 * TOGETHER), timedelta(0)),
        (News("Restarting", T0), Notified("Running", T0, "x", T0 + timedelta(days=9)), timedelta(0)),
        (News("Blocked", T0), None, None),
        (News("Failed", T0 - MAX_AGE - MINUTE), None, None),
    ],
)
def test_due_returns_when_a_message_is_sent(news: News, last: Notified | None, wait: timedelta | None):
    assert due(news, last, T0, NOTIFY_STATES) == (None if wait is None else T0 + wait)


@pytest.mark.parametrize("found", [None, 7, [], {"since": 7}, {"state": "Failed"}])
def test_what_others_have_written_there_counts_as_nothing(found: object):
    assert parse_notified({"status": {"notified": found}}) is None

"""Which changes of a job are sent: one message for each, and few about a job that restarts again and again."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import msgspec

from trainshed.api.coerce import as_mapping, format_time, parse_text, parse_time
from trainshed.api.job import Document
from trainshed.api.status import ConditionType, Status
from trainshed.config import NOTIFY_STATES

#: The field of a job's status with what was sent last. Only the operator that sends messages writes and reads it.
FIELD = "notified"
#: The age from which nothing is sent any more: it is no news, as after an outage, or for a job that is annotated late.
MAX_AGE = timedelta(hours=1)
#: What becomes of messages: they are sent, or not, and why.
SENT, FAILED, UNKNOWN, BAD, FULL, UNSTORED = RESULTS = (
    "Sent",
    "Failed",
    "Unknown",
    "Invalid",
    "QueueFull",
    "NotStored",
)
#: Restarts within this time after one that was sent are not sent.
TOGETHER = timedelta(minutes=10)


class News(msgspec.Struct, frozen=True):
    """A state that a job is in, one of `NOTIFY_STATES`, and since when."""

    state: str
    since: datetime


class Notified(msgspec.Struct, frozen=True):
    """What was sent last: `id` is that of the message, `restart` the time of the last message about a restart."""

    state: str
    since: datetime
    id: str
    restart: datetime | None = None


def current(status: Status) -> News | None:
    """Return what there is to send of a job; None in a state of which nothing is sent.

    A job that is created suspended, as those of a queue are, has not been suspended. One that recovers does not run.
    """
    decisive, stalled = status.decisive, status.condition(ConditionType.STALLED)
    if decisive is None or str(decisive.type) not in NOTIFY_STATES:
        return None
    if decisive.type is ConditionType.RUNNING:
        if status.recovers:
            return None
        decisive = stalled if stalled and stalled.true else decisive
    elif decisive.type is ConditionType.SUSPENDED and status.condition(ConditionType.RUNNING) is None:
        return None
    return News(str(decisive.type), decisive.changed)


def due(news: News, last: Notified | None, now: datetime, states: Collection[str]) -> datetime | None:
    """Return from which time the news are sent, which may be over; None if never."""
    if news.state not in states or now - news.since > MAX_AGE:
        return None
    if last is None:
        return news.since
    runs_on = news.state == last.state == ConditionType.RUNNING
    if runs_on or (news.state, news.since) == (last.state, last.since):
        return None
    if news.state == ConditionType.RESTARTING and last.restart and last.restart <= now:
        return max(news.since, last.restart + TOGETHER)
    return news.since


def parse_notified(document: Document) -> Notified | None:
    """Return what a job says was sent last, None if nothing; others may have written it."""
    found = as_mapping(as_mapping(document.get("status")).get(FIELD))
    since = parse_time(found.get("since"))
    if since is None:
        return None
    return Notified(
        parse_text(found.get("state")), since, parse_text(found.get("id")), parse_time(found.get("restartTime"))
    )


def notified_document(news: News, identity: str, before: Notified | None, now: datetime) -> dict[str, Any]:
    """Return the value of `FIELD` for a message that is about to be sent."""
    restart = now if news.state == ConditionType.RESTARTING else before and before.restart
    found = {"state": news.state, "since": format_time(news.since), "id": identity}
    return found | ({"restartTime": format_time(restart)} if restart else {})

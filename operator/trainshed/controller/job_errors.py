"""How long a job waits after an error, and which of its errors are news."""

from __future__ import annotations

import re

import msgspec

from trainshed.api.job import JobKey
from trainshed.client import (
    UNCALLED,
    Altered,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NameConflict,
    StatusRejected,
    StatusReverted,
)

#: Back-off in seconds, the first and the longest: after a definite refusal, which people must resolve, and after any
#: other error, which is usually transient (a few seconds after an outage all jobs must continue).
AFTER_NO, AFTER_ERROR = (1.0, 20.0), (0.1, 8.0)
#: Back-off after a refusal of new objects alone, as by a quota: no pod is to be deleted meanwhile, and what ends it is
#: seen if it is a change of the job, or the end of a pod of its namespace (`refused_jobs`).
AFTER_REFUSAL = (1.0, 300.0)
#: Back-off while a webhook cannot be called: its server starts again within seconds, or people must see to it.
AFTER_WEBHOOK = (0.1, 20.0)
#: Back-off after a conflict: one is normal and must cost no noticeable time. Where another client writes the job tens
#: of times a second, only one try in several succeeds, and a longer back-off would keep the status from ever being
#: stored.
AFTER_CONFLICT = (0.01, 0.5)
#: Back-off after a rejected status: someone must replace the CRD, or the job.
AFTER_REJECTION = (1.0, 120.0)
#: Errors whose back-off no event may end: another client writes the job all the time, or a webhook makes of each pod
#: one that is deleted at once, or what is written is undone each time.
CAUSES_EVENTS = (Conflict, Altered, StatusReverted)
#: Seconds of back-off at which conflicts are logged as a warning, once in a row of them: so many are not normal.
LASTING = 0.25
#: From this back-off on, events of the job wait for this time after the last try, in seconds: what fails for so long is
#: not resolved by each of them, and pods that come and go have many.
LONG, PAUSE = 4.0, 1.0
#: What differs in each message about the same, such as the port of a connection or a time.
NUMBERS = re.compile(r"\d+")
#: The number of messages that are remembered of a job, and of characters of each.
MOST, MAX_LENGTH = 8, 256


class _Errors(msgspec.Struct):
    """The errors of one kind in a row: when the first one came, and the last back-off."""

    since: float
    seconds: float = 0.0


class JobErrors:
    """The errors of each job since its last success: each kind of error, and the messages. Times are in seconds."""

    def __init__(self) -> None:
        self._errors: dict[JobKey, dict[tuple[float, float], _Errors]] = {}
        self._messages: dict[JobKey, set[str]] = {}

    def backoff(self, key: JobKey, limits: tuple[float, float], now: float) -> float:
        """Return the seconds to wait, twice as many as after the last error with these limits, and remember them.

        An error of another kind does not count: many short ones after conflicts make none long, and one conflict makes
        none short that was long already.
        """
        first, longest = limits
        known = self._errors.setdefault(key, {}).setdefault(limits, _Errors(now))
        known.seconds = min(max(first, 2 * known.seconds), longest)
        return known.seconds

    def lasted(self, key: JobKey, limits: tuple[float, float], now: float) -> float:
        """Return the seconds since the first error of a job with these limits."""
        return now - self._errors[key][limits].since

    def is_news(self, key: JobKey, message: str) -> bool:
        """Return whether no message since the last success was the same but for numbers, and remember it."""
        known, short = self._messages.setdefault(key, set()), NUMBERS.sub("", message)[:MAX_LENGTH]
        if short in known:
            return False
        if len(known) >= MOST:
            known.clear()
        known.add(short)
        return True

    def forget(self, key: JobKey) -> None:
        """Forget the errors of a job after a success."""
        self._errors.pop(key, None)
        self._messages.pop(key, None)

    def clear(self) -> None:
        """Forget all errors."""
        self._errors.clear()
        self._messages.clear()


def may_last(error: ApiError | None) -> bool:
    """Return whether an error is a refusal of new objects that ends only when there is room, or people resolve it.

    Others end by themselves, or when an object is gone that no watch selects, as one of another that has the name.
    """
    return isinstance(error, (Forbidden, Invalid)) and not isinstance(error, Altered)


def limits_of(error: ApiError) -> tuple[float, float]:
    """Return the first and the longest back-off after an error, in seconds."""
    if isinstance(error, Conflict):
        return AFTER_CONFLICT
    if isinstance(error, StatusRejected) and not isinstance(error, StatusReverted):
        return AFTER_REJECTION
    if error.reason == UNCALLED:
        return AFTER_WEBHOOK
    return AFTER_NO if isinstance(error, (Forbidden, Invalid, NameConflict)) else AFTER_ERROR

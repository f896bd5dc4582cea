"""Durations and ages as kubectl prints them."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

#: Seconds of a minute, an hour, a day and a year.
MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY
#: Up to how many seconds, hours and so on a duration has two units, as in k8s.io/apimachinery/pkg/util/duration.
SECONDS, MINUTES, THREE_HOURS, HOURS, TWO_DAYS, DAYS, TWO_YEARS, YEARS = (
    *(2 * MINUTE, 10 * MINUTE, 3 * HOUR, 8 * HOUR),
    *(2 * DAY, 8 * DAY, 2 * YEAR, 8 * YEAR),
)


def human(seconds: float) -> str:
    """Return a duration as `kubectl get` shows ages: `98s`, `5m10s`, `3h`, `4d2h`; a negative one is `0s`."""
    whole = max(0, int(seconds))
    for limit, unit, mark, rest, rest_mark in (
        (SECONDS, 1, "s", 0, ""),
        (MINUTES, MINUTE, "m", 1, "s"),
        (THREE_HOURS, MINUTE, "m", 0, ""),
        (HOURS, HOUR, "h", MINUTE, "m"),
        (TWO_DAYS, HOUR, "h", 0, ""),
        (DAYS, DAY, "d", HOUR, "h"),
        (TWO_YEARS, DAY, "d", 0, ""),
        (YEARS, YEAR, "y", DAY, "d"),
    ):
        if whole < limit:
            left = whole % unit // rest if rest else 0
            return f"{whole // unit}{mark}" + (f"{left}{rest_mark}" if left else "")
    return f"{whole // YEAR}y"


def exact(seconds: int) -> str:
    """Return a duration to the second, in hours and less: `1h0m5s`, `12m0s`, `98s`."""
    if seconds < SECONDS:
        return f"{seconds}s"
    minutes = f"{seconds // MINUTE % MINUTE}m{seconds % MINUTE}s"
    return f"{seconds // HOUR}h{minutes}" if seconds >= HOUR else minutes


def rounded(seconds: float) -> str:
    """Return a duration in its two largest units, rounded: `21d5h`, `1h30m`, `7m5s`, `40s`."""
    units = ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s"))
    for (large, mark), (small, rest_mark) in pairwise(units):
        count = round(seconds / small)
        if count * small >= large:
            whole, rest = divmod(count, large // small)
            return f"{whole}{mark}" + (f"{rest}{rest_mark}" if rest else "")
    return f"{round(seconds)}s"


def age(since: datetime | None, now: datetime) -> str:
    """Return the time since then, `<unknown>` without one, as kubectl does."""
    return human((now - since).total_seconds()) if since else "<unknown>"

"""The time of day, once for the whole operator: it goes on with the monotonic clock, whatever is done to the wall's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Seconds since 1970, or since whenever.
Source = Callable[[], float]


def uptime() -> float:
    """Seconds by the monotonic clock; where there is one that goes on while the machine sleeps, by that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Clock:
    """The wall clock as it was when we began, and what has passed since by the monotonic clock.

    Deadlines, back-off and TTL are moments that are compared with now, and are waited for by the event loop's timers,
    which are monotonic. Were now to leap, whatever waits would fire at once or far too late. So it does not: somebody
    who sets the machine's clock while we run changes nothing for us before the next start, and the meters say by how
    much we differ. That NTP makes a second a little longer or shorter both clocks follow alike. A machine that slept
    knows for how long, so that a leader who wakes does not take its Lease for renewed a moment ago.
    """

    def __init__(self, wall: Source = time.time, steady: Source = uptime) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> datetime:
        """The time of day in UTC."""
        return datetime.fromtimestamp(self._offset + self._steady(), UTC)

    def skew(self) -> float:
        """By how many seconds the wall clock has leapt since we began: forward is positive."""
        return self._wall() - self._steady() - self._offset

"""The time of day, once for the whole operator: it goes on with the monotonic clock, whatever is done to the wall's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Seconds since 1970, or since whenever.
Source = Callable[[], float]
#: Seconds: a step of the wall clock that counts (a leap second does not), how long it has to last until it is believed,
#: and from one comparison to the next.
STEP, LASTING, COMPARED = 5.0, 60.0, 5.0


def uptime() -> float:
    """Seconds by the monotonic clock; where there is one that goes on while the machine sleeps, by that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Clock:
    """The wall clock as it was when we began, and what has passed since by the monotonic clock.

    Deadlines, back-off and TTL are moments that are compared with now, and are waited for by the event loop's timers,
    which are monotonic. Were now to leap, whatever waits would fire at once or far too late. So it does not, and within
    a process no time ever goes backwards. That NTP makes a second a little longer or shorter both clocks follow alike.
    A machine that slept knows for how long, so that a leader that wakes does not take its Lease for just renewed.

    A process that started before NTP had set the clock would keep the wrong time, though, and write it into statuses.
    So the process ends once the wall clock has been elsewhere for a minute (`stepped`); the kubelet starts it again.
    That is safer than to correct the time in a running process: the Lease, the back-off, the timers and whatever a
    reconcile remembers are moments of the old time. A clock that was set back by an hour would hold a lost Lease for
    that hour. A start reads everything by the new time, and does nothing else than every start does.
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

    async def stepped(self) -> float:
        """Return once the wall clock has lastingly been set to another time; by how many seconds, forward is positive.

        A step that is taken back within the minute, or is followed by another, does not last.
        """
        found, lasted = 0.0, 0.0
        while lasted < LASTING:
            await asyncio.sleep(COMPARED)
            skew = self.skew()
            same = abs(skew) >= STEP and abs(skew - found) < STEP
            found, lasted = (found, lasted + COMPARED) if same else (skew, 0.0)
        return found

"""The operator's clock: UTC that advances with the monotonic clock and ignores changes of the wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Seconds since 1970, or since an arbitrary start.
Source = Callable[[], float]
#: Seconds: the smallest step of the wall clock that counts (a leap second does not), how long it must last, and the
#: interval between two comparisons.
STEP, LASTING, COMPARED = 5.0, 60.0, 5.0


def uptime() -> float:
    """Return the seconds of the monotonic clock; CLOCK_BOOTTIME where available, which includes the time asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Clock:
    """The wall clock at the start of the process plus the time that has passed on the monotonic clock since.

    Deadlines, back-off and TTL are times that are compared with now, while the event loop's timers that wait for them
    are monotonic. If now could jump, timers would fire at once or far too late. So it never jumps, and within a process
    time never goes backwards. NTP's slewing affects both clocks alike. After a machine was suspended the clock includes
    the time asleep, so a leader that resumes does not treat its Lease as renewed just now.

    But a process that starts before NTP has set the clock would keep the wrong time and write it into statuses. So the
    process ends after the wall clock has been off for a minute (`stepped`), and the kubelet restarts it. That is safer
    than to correct the time in a running process: the Lease, the back-off, the timers and everything that the
    reconciler remembers are times of the old clock. After the clock was set back by an hour a replica would hold a lost
    Lease for that hour. A start reads everything with the new time and does only what every start does.
    """

    def __init__(self, wall: Source = time.time, steady: Source = uptime) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.fromtimestamp(self._offset + self._steady(), UTC)

    def skew(self) -> float:
        """Return the step of the wall clock since the start in seconds; positive is forward."""
        return self._wall() - self._steady() - self._offset

    async def stepped(self) -> float:
        """Wait until the wall clock was changed for good; return the step in seconds, positive is forward.

        A step that is reverted within the minute, or is followed by another, does not count.
        """
        found, lasted = 0.0, 0.0
        while lasted < LASTING:
            await asyncio.sleep(COMPARED)
            skew = self.skew()
            same = abs(skew) >= STEP and abs(skew - found) < STEP
            found, lasted = (found, lasted + COMPARED) if same else (skew, 0.0)
        return found

"""Under load, handles what arrives from the network together instead of piece by piece.

Network cards do the same with interrupts. Each wake-up of the process costs more processor time than the piece of data:
other processes have used the processor and its caches since.
"""

from __future__ import annotations

import asyncio
import time

#: The event loop looks for data at most each SHARE of the mean response time, and waits at most LONGEST seconds for it:
#: so requests in a row, which wait for each other, take little longer.
SHARE, LONGEST = 0.25, 0.005
#: The weight of a response time in the mean.
WEIGHT = 0.1
#: Passes of the event loop from a response to the requests that are sent because of it. They are made before a pause,
#: for the server to work meanwhile.
PASSES = 4


class Coalescing:
    """Pauses the event loop while data arrives often."""

    def __init__(self) -> None:
        self._mean = self._last = 0.0
        self._scheduled = False

    def responded(self, seconds: float) -> None:
        """Note how long a response took."""
        self._mean += (seconds - self._mean) * WEIGHT

    def arrived(self) -> None:
        """Note that data has arrived: once it is handled, pause if the last pause was a short time ago."""
        if not self._scheduled:
            self._scheduled = True
            self._pass(PASSES)

    def _pass(self, left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(self._pass, left - 1)
            return
        self._scheduled = False
        pause = self._last + min(LONGEST, self._mean * SHARE) - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        self._last = time.monotonic()

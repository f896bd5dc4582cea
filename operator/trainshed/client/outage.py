"""What a command that waits makes of errors: most pass, and one line is printed about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from . import UNAUTHORIZED, ApiError, Forbidden

#: Seconds for which errors in a row are taken for a short interruption: nothing is said of them.
PATIENCE = 3.0
#: After so many seconds without an error an outage is a new one, and the user hears of it again.
CALM = 60.0


class Outage:
    """Errors in a row: tells the user once that the API server does not answer as it should."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began = self._last = 0.0
        self._said = False

    def note(self, error: ApiError, heard: float) -> float:
        """Return for how many seconds there have been errors only; `heard` is when an answer was of use last.

        Raises an error that does not pass by waiting: missing rights, and credentials that are rejected for long.
        """
        now = asyncio.get_running_loop().time()
        if heard >= self._last:
            self._began, self._said = now, self._said and now - self._last < CALM
        self._last = now
        seconds = now - self._began
        if isinstance(error, Forbidden) or (seconds >= PATIENCE and error.reason == UNAUTHORIZED):
            raise error
        if seconds >= PATIENCE and not self._said:
            self._said = True
            self._say(f"The API server does not answer as it should: {error}. Trying again.")
        return seconds

"""An event loop with virtual time and real sockets, for unit tests: instead of waiting it advances its clock.

The loop of the simulation (`sim/loop.py`) has no sockets and runs several processes; this one is asyncio's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any


class Hasty(asyncio.SelectorEventLoop):
    """An event loop with a clock that starts at 1,000 seconds and advances only when no callback is ready."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        self._look = self._selector.select
        self._selector.select = self._leap

    def time(self) -> float:
        return self._now

    def _leap(self, timeout: float | None = None) -> list:
        found = self._look(0)
        if not found:
            assert timeout is not None, "no timer is left, and nothing is ready"
            self._now += timeout
        return found


def hastily(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that runs in virtual time."""
    with asyncio.Runner(loop_factory=Hasty) as runner:
        return runner.run(coroutine)


def clock() -> float:
    """Return the time of the running loop, in seconds."""
    return asyncio.get_running_loop().time()


def now() -> datetime:
    """Return the same time as a date, in the year 1970."""
    return datetime.fromtimestamp(clock(), UTC)

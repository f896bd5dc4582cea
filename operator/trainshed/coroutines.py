"""Runs a coroutine as `asyncio.run` does, but lets no signal interrupt what makes or closes the event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

#: The signals of which a handler may raise KeyboardInterrupt.
HELD = (signal.SIGINT, signal.SIGTERM)


def run_coroutine(function: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of a coroutine function, which runs in an event loop of its own.

    A signal that comes while the loop is made is handled in the coroutine, and one that comes while it is closed after
    that. An event loop that was made only in part prints a traceback when it is collected.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(function())
    signals = _Signals()

    async def begun() -> Result:
        signals.handle()
        try:
            return await function()
        finally:
            signals.hold()

    signals.hold()
    try:
        return asyncio.run(begun())
    finally:
        signals.handle()


class _Signals:
    """The signals that have come and are not handled yet."""

    def __init__(self) -> None:
        self._usual: dict[int, Any] = {}
        self._held: list[int] = []

    def hold(self) -> None:
        """Handle no signal for now."""
        self._usual = {number: found for number in HELD if (found := signal.getsignal(number)) is not None}
        for number in self._usual:
            signal.signal(number, lambda number, _: self._held.append(number))

    def handle(self) -> None:
        """Handle signals again, first the first one that has come."""
        for number, handler in self._usual.items():
            signal.signal(number, handler)
        if self._held:
            first = self._held[0]
            self._held.clear()
            signal.raise_signal(first)

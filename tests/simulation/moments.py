"""Callbacks that a loop is to run, each at a moment."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

#: A second in the loop's own measure.
MICRO = 1_000_000


class Handle:
    """A callback that is to be run once."""

    __slots__ = ("args", "callback", "cancelled_", "context", "due")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None, due: int
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.due = due
        self.cancelled_ = False

    def cancel(self) -> None:
        """Let it not be run."""
        self.cancelled_ = True
        self.callback, self.args = _nothing, ()

    def cancelled(self) -> bool:
        """Whether it will not be run."""
        return self.cancelled_

    def when(self) -> float:
        """The time of the loop at which it is due."""
        return self.due / MICRO


def _nothing(*_: object) -> None:
    """What a cancelled callback does."""

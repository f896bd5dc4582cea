"""Tasks and callbacks of a run, none of which ends in silence: an unexpected error of one ends the run."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from trainshed.controller.observer import Observer

#: Seconds between two checks whether a time is over; checks without progress that are a silence.
STEP, CHECKS = 1.0, 20
Result = TypeVar("Result")


async def within(work: Awaitable[Result], seconds: float) -> Result:
    """Return the result of work; raises TimeoutError after some seconds, and cancels it.

    Time in which this process does not run does not count, as after Ctrl-Z: an answer that came meanwhile is taken.
    """
    future, step = asyncio.ensure_future(work), min(STEP, seconds)
    try:
        for _ in range(math.ceil(seconds / step) + 1):
            if (await asyncio.wait({future}, timeout=step))[0]:
                return await future
        raise TimeoutError
    finally:
        future.cancel()
        await asyncio.gather(future, return_exceptions=True)


async def until_silent(work: asyncio.Future[Any], progress: Callable[[], int], silence: float, longest: float) -> None:
    """Wait for the end of work, but not through a `silence`, nor `longest` all in all: seconds without progress.

    Time in which this process does not run, or waits for a reader of its output, does not count.
    """
    step, silent, in_row, known = silence / CHECKS, 0.0, 0, progress()
    while in_row < CHECKS and silent < longest and not (await asyncio.wait({work}, timeout=step))[0]:
        known, before = progress(), known
        in_row = in_row + 1 if known == before else 0
        silent += step if known == before else 0.0


def start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task whose error reaches the event loop's handler at once, also if nothing awaits the task."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_pass_on)
    return task


def _pass_on(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        task.get_loop().call_exception_handler({"message": task.get_name(), "exception": error, "task": task})


class LocalObserver(Observer):
    """Counts nothing: a local run has no metrics, and no internal errors."""

    def count_internal_error(self) -> None:
        """End the run: an error would only be tried again."""
        if error := sys.exception():
            asyncio.get_running_loop().call_exception_handler({"message": "controller", "exception": error})


class Faults:
    """Keeps the first unexpected error of the tasks and callbacks of the running event loop, and calls `ended`."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self.first: BaseException | None = None
        self._where = ""

    def watch(self) -> None:
        """Begin."""
        asyncio.get_running_loop().set_exception_handler(self._handle)

    def note(self, error: BaseException, where: str) -> None:
        """Note an error."""
        if self.first is None:
            self.first, self._where = error, where
            self._ended()

    def sentence(self) -> str:
        """Return what has gone wrong, in a sentence for the user."""
        return described(self.first, self._where) if self.first else ""

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, task = context.get("exception"), context.get("task") or context.get("future")
        if error is None:  # such as a task that was not awaited, at the very end
            loop.default_exception_handler(context)
            return
        self.note(error, task.get_name() if isinstance(task, asyncio.Task) else "")


def described(error: BaseException, where: str = "") -> str:
    """Return a sentence about an error: what the system does not permit, or that Trainshed has a fault."""
    place = f"{where}: " if where else ""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return f"{place}{error.strerror}{f' ({error.filename})' if error.filename else ''}"
    if isinstance(error, MemoryError):
        return f"{place}no memory is left"
    text = " ".join(str(error).split())
    return f"{place}internal error in Trainshed, please report it: {type(error).__name__}: {text}"

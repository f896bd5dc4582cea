"""Prints the lines of a run where a reader may have stopped to read, and a line with its state on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from functools import cached_property
from typing import TextIO

from trainshed.api.coerce import ELLIPSIS

from . import tasks

#: Seconds for which a run that ends waits, all in all, for a reader of its output, and between two tries.
PATIENCE, STEP = 1.0, 0.1
#: Seconds between two states of the jobs, the sequences around one, and that which removes the line.
REFRESH = 0.25
REVERSE, RESET, CLEAR = "\x1b[7m", "\x1b[0m", "\r\x1b[K"
#: How a terminal is opened a second time: programs that share its first file still wait when they write.
TERMINAL = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Printer:
    """Prints lines on a stream, none if it is None: it was closed when the program began.

    A reader that has gone, as `head` does, or a closed terminal, ends the run as the first Ctrl-C does. One that does
    not read holds the run up, but not its end: `hurry` lets the printer wait no longer than some time more.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._hurried = self._terminal = False
        self._late = 0.0

    def hurry(self) -> None:
        """Wait no longer for a reader; a signal handler may call this while `write` waits."""
        self._hurried = True

    def line(self, text: str) -> None:
        """Print a line. Raises OSError."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Print a text; characters that the stream cannot have are question marks. Raises OSError."""
        if self._stream is None:
            return
        encoding = self._stream.encoding or "utf-8"
        content = text.encode(encoding, "replace")
        if self._descriptor is None:
            self._stream.write(content.decode(encoding))
            return
        try:
            while content and self._waits(self._descriptor):
                try:
                    content = content[os.write(self._descriptor, content[: select.PIPE_BUF]) :]
                except BlockingIOError:  # a terminal may need more room than it says it has
                    time.sleep(STEP)
                    self._count()
        except OSError as error:
            if not isinstance(error, BrokenPipeError) and not (self._terminal and error.errno == errno.EIO):
                raise
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._descriptor)
            os.close(nothing)
            if not self._hurried:  # the run may end already, by the signal with which the reader has gone
                signal.raise_signal(signal.SIGINT)

    def ready(self) -> bool:
        """Return whether a text can be printed at once."""
        return self._descriptor is None or bool(select.select([], [self._descriptor], [], 0)[1])

    @cached_property
    def _descriptor(self) -> int | None:
        """The descriptor of the stream, or one of its terminal that never waits; None for a stream in memory."""
        try:
            descriptor = self._stream.fileno() if self._stream else None
        except OSError:
            return None
        if descriptor is not None and os.isatty(descriptor):
            self._terminal = True
            with contextlib.suppress(OSError):
                return os.open(os.ttyname(descriptor), TERMINAL)
        return descriptor

    def _waits(self, descriptor: int) -> bool:
        """Wait until the reader has read; return False if it takes too long for a run that ends."""
        while self._late < PATIENCE:
            if select.select([], [descriptor], [], STEP)[1]:
                return True
            self._count()
        return False

    def _count(self) -> None:
        self._late += STEP if self._hurried else 0.0


class StatusLine:
    """One line at the bottom of a terminal with the state of the jobs; prints other lines above it."""

    def __init__(self, text: Callable[[], str], printer: Printer) -> None:
        self._text = text
        self._printer = printer
        self._shown = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Show the line, and keep it up to date."""
        self._task = tasks.start(self._refresh(), "status line")

    def print(self, line: str) -> None:
        """Print a line above it. Raises OSError."""
        self._printer.write(f"{CLEAR}{line}\n{self._shown}")

    def stop(self) -> None:
        """Remove the line. Raises OSError."""
        if self._task:
            self._task.cancel()
        self._printer.write(CLEAR)

    async def _refresh(self) -> None:
        while True:
            before, self._shown = self._shown, self._fitting()
            if self._shown != before and self._printer.ready():
                self._printer.write(f"{CLEAR}{self._shown}")
            await asyncio.sleep(REFRESH)

    def _fitting(self) -> str:
        """Return the state in one line; the last column stays empty, where some terminals begin the next line."""
        text, most = self._text(), max(shutil.get_terminal_size().columns - 1, 1)
        return f"{REVERSE}{text if len(text) <= most else text[: most - 1] + ELLIPSIS}{RESET}"

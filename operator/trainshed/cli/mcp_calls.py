"""Runs commands for `trainshed mcp`, in this process and one at a time, and keeps what they print, up to a limit."""

from __future__ import annotations

import asyncio
import errno
import io
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass

from trainshed.api.foreign_text import inert

#: The most characters of the output of a command, and of what it says beside it, that are returned.
MOST, MOST_NOTES = 100_000, 10_000
CUT = "\n[cut here: there is more. Ask for less, such as one job, one replica, or fewer lines.]\n"


@dataclass(frozen=True, slots=True)
class Done:
    """What a command has printed, what it has said on standard error, and its exit code."""

    output: str
    notes: str
    code: int


class Kept(io.StringIO):
    """Keeps the first characters that are written; who writes more is ended, as by a pipe that closes.

    A command that changes something is not `ended`: it finishes what it has begun.
    """

    def __init__(self, most: int, *, ends: bool) -> None:
        super().__init__()
        self._most, self._ends, self._is_cut = most, ends, False

    def write(self, text: str) -> int:
        """Keep the text, as far as there is room for it."""
        room = self._most - self.tell()
        super().write(text[:room])
        if len(text) > room:
            self._is_cut = True
            if self._ends:
                raise BrokenPipeError(errno.EPIPE, "the output is long enough")
        return len(text)

    @property
    def text(self) -> str:
        """What was kept, without control characters."""
        return inert(self.getvalue()) + (CUT if self._is_cut else "")


class Runner:
    """Runs commands in a thread of its own: standard output is one, so there is one command at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "command")

    async def run(self, words: Sequence[str], stdin: str = "", *, changes: bool = False) -> Done:
        """Run a command; one that waits for its turn is not begun if it is cancelled, others end in their time."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _run, words, stdin, changes)


def _run(words: Sequence[str], stdin: str, changes: bool) -> Done:  # noqa: FBT001 - executors pass no names
    from trainshed.cli import cli  # noqa: PLC0415 - it is what imports this

    output, notes = Kept(MOST, ends=not changes), Kept(MOST_NOTES, ends=not changes)
    with redirect_stdout(output), redirect_stderr(notes), _redirect_stdin(stdin):
        try:
            cli.main(list(words), prog_name="trainshed", auto_envvar_prefix="TRAINSHED")
        except SystemExit as end:
            code = end.code
    return Done(output.text, notes.text, code if isinstance(code, int) else int(code is not None))


@contextmanager
def _redirect_stdin(text: str) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode(errors="replace")), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before

"""The output of a run: the lines of all replicas with their names before them, and logs in files."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.api.foreign_text import RESET, harmless, one_line
from trainshed.api.job import Document
from trainshed.process import Clock

from .kept_log import KeptLog
from .stored_objects import job_name

#: The colours of replicas, in the order in which they first write.
COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
DIM = "\x1b[2m"
#: Seconds between two lines of a progress bar, which replaces its line many times a second.
BAR_INTERVAL = 2.0
#: Characters of an unfinished line that are kept; a longer one is printed in pieces.
LONGEST = 100_000
UTF_8 = codecs.getincrementaldecoder("utf-8")


@dataclass(slots=True)
class _Stream:
    """The output of one container: its log, and its unfinished line, with a character that may be cut.

    `who` is its replica, `label` the replica with a container that is not the main one; they are the prefix of lines.
    """

    who: str
    label: str
    log: KeptLog
    shown: bool
    prefix: str = ""
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: UTF_8(errors="replace"))
    rest: str = ""
    bar_shown: float = field(default=-BAR_INTERVAL)


class Output:
    """Implements `runtimes.protocol.LogSink`, and prints what happens to the jobs.

    `only` are the replicas to print; all if it is empty. `one_job` is whether prefixes need no job, `width` is that of
    prefixes. `write` prints one line. `taken` is how many bytes have come.
    """

    def __init__(  # noqa: PLR0913 - a few choices of the user
        self,
        logs: Path,
        only: tuple[str, ...] = (),
        *,
        one_job: bool = True,
        width: int = 8,
        colour: bool = True,
        write: Callable[[str], None],
    ) -> None:
        self._logs = logs
        self._only = only
        self._one_job = one_job
        self._colour = colour
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._width = width
        self._colours: dict[str, str] = {}
        self.write_line: Callable[[str], None] = write
        self.taken = 0

    def begin(self, pod: Document, container: str) -> None:
        """Note that a container runs: what it prints is kept apart from that of its runs before."""
        self._stream(pod, container).log.begin(str(pod["metadata"]["uid"]))

    def write(self, pod: Document, container: str, chunk: bytes) -> None:
        """Take some output of a container; print its complete lines."""
        self.taken += len(chunk)
        stream = self._stream(pod, container)
        stream.log.write(chunk)
        if not stream.shown:
            return
        *lines, stream.rest = (stream.rest + stream.decoder.decode(chunk)).split("\n")
        for line in lines:
            self._print(stream, _last_state(line))
        self._shorten(stream)
        if "\r" in stream.rest and time.monotonic() - stream.bar_shown >= BAR_INTERVAL:
            stream.bar_shown = time.monotonic()
            self._print(stream, _last_state(stream.rest))

    def _shorten(self, stream: _Stream) -> None:
        """Print what is too long of an unfinished line, without what a carriage return has replaced."""
        if len(stream.rest) > LONGEST and "\r" in stream.rest:
            ended = stream.rest.endswith("\r")
            stream.rest = f"{_last_state(stream.rest)}\r" if ended else f"\r{_last_state(stream.rest)}"
        while len(stream.rest) > LONGEST:
            self._print(stream, stream.rest[:LONGEST])
            stream.rest = stream.rest[LONGEST:]

    def end(self, pod: Document, container: str) -> None:
        """Print the unfinished line of a container that has ended."""
        stream = self._stream(pod, container)
        stream.log.end()
        if last := stream.rest + stream.decoder.decode(b"", final=True):
            self._print(stream, _last_state(last))
            stream.rest = ""

    def log(self, pod: str, container: str) -> KeptLog | None:
        """Return what a container of the pods of this name has printed; None if it has not run."""
        stream = self._streams.get((pod, container))
        return stream.log if stream else None

    def say(self, text: str, who: str = "") -> None:
        """Print a line about a job, or about the run; further lines of the text are indented below it."""
        prefix = f"{printable(who):<{self._width}} | " if who else ""
        first, *more = text.splitlines() or [""]
        for line in (harmless(first), *(f"  {harmless(item)}" for item in more)):
            self.write_line(f"{DIM}{prefix}{line}{RESET}" if self._colour else f"{prefix}{line}")

    def print_line(self, line: str) -> None:
        """Print a line as it is."""
        self.write_line(line)

    def shows(self, job: str, pod: str) -> bool:
        """Return whether the output of a pod is printed."""
        return not self._only or any(is_named(only, job, pod) for only in self._only)

    def close(self) -> None:
        """Close the files."""
        for stream in self._streams.values():
            stream.log.close()

    def _stream(self, pod: Document, container: str) -> _Stream:
        key = (pod["metadata"]["name"], container)
        known = self._streams.get(key)
        if known is None:
            known = self._streams[key] = self._new(pod, container)
        return known

    def _new(self, pod: Document, container: str) -> _Stream:
        replica = replica_name(pod)
        main = pod["spec"]["containers"][0]["name"] == container
        who = replica if self._one_job else f"{job_name(pod)}/{replica}"
        name = pod["metadata"]["name"] + ("" if main else f".{container}")
        return _Stream(
            who,
            who if main else f"{who}/{container}",
            KeptLog(self._logs / f"{name}.log", Clock().now),
            self.shows(job_name(pod), str(pod["metadata"]["name"])),
        )

    def _prefix(self, stream: _Stream) -> str:
        """Return what stands before the lines of a container; one that prints nothing makes it no wider."""
        self._width = max(self._width, len(stream.label))
        colour = self._colours.setdefault(stream.who, str(COLOURS[len(self._colours) % len(COLOURS)]))
        text = f"{stream.label:<{self._width}} |"
        return f"\x1b[{colour}m{text}{RESET} " if self._colour else f"{text} "

    def _print(self, stream: _Stream, line: str) -> None:
        stream.prefix = stream.prefix or self._prefix(stream)
        self.write_line(f"{stream.prefix}{harmless(line, colour=self._colour)}")


def replica_name(pod: Document) -> str:
    """Return the name of a pod without that of its job, such as worker-0."""
    return str(pod["metadata"]["name"]).removeprefix(f"{job_name(pod)}-")


def is_named(wanted: str, job: str, pod: str) -> bool:
    """Return whether a pod is meant: worker-1, mnist/worker-1 or mnist-worker-1."""
    replica = pod.removeprefix(f"{job}-")
    return wanted in (replica, f"{job}/{replica}", pod)


def _last_state(line: str) -> str:
    """Return what a terminal would show of a line in which carriage returns start it again."""
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def printable(text: object) -> str:
    """Return a name, a reason or a message of others as one line of plain text."""
    return one_line(str(text))

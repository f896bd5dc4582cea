"""The logs of a run on this machine: what its containers have printed, as the run has kept it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

import msgspec

from trainshed.client.log_stream import Stamped

from .replica_logs import LogPod, LogQuery, OpenLog

#: Bytes that are read at a time, the most of a line, and the most that are read for the last lines of a log.
PIECE, MOST_LINE, MOST_TAIL = 1 << 16, 1 << 16, 4 << 20
#: Seconds between two checks whether more was printed.
POLL_SECONDS = 0.2


class PrintedRun(Protocol):
    """One run of a container: the numbers of its first byte, and of the first one after it once it is over."""

    @property
    def start(self) -> int:
        """The number of its first byte."""

    @property
    def end(self) -> int | None:
        """The number of the first byte after it; None while it runs."""


class PrintedLog(Protocol):
    """What the containers of one name have printed in all pods of one name; its bytes are numbered."""

    @property
    def size(self) -> int:
        """The number of the byte that is written next."""

    @property
    def oldest(self) -> int:
        """The number of the first byte that is kept."""

    def read(self, start: int, most: int) -> bytes:
        """Return bytes from `start` on, not more than so many; raises OSError."""

    def time_of(self, place: int) -> str:
        """Return when the byte of this number was printed (RFC 3339 in UTC); empty if that is not kept."""

    def runs_of(self, uid: str) -> Sequence[PrintedRun]:
        """Return the runs in the pod with this uid, the oldest first."""

    def run_before_last(self, uid: str) -> Sequence[PrintedRun]:
        """Return the run before the last one, if the last one is of the pod with this uid."""


class Stretch(msgspec.Struct, frozen=True):
    """Implements `PrintedRun` as it is at a time."""

    start: int
    end: int | None


class RunLogs:
    """Implements `ReplicaLogs`; `find` returns the log of a container by the names of pod and container."""

    outlive = True

    def __init__(self, find: Callable[[str, str], PrintedLog | None]) -> None:
        self._find = find

    def open(self, pod: LogPod, query: LogQuery, after: str = "") -> OpenLog:
        """Return the log of a container; `after` is the number of a byte, as `last` has it."""
        return RunLog(self._find(pod.name, pod.container), pod.uid, query, after)


class RunLog:
    """Implements `OpenLog`: what a container printed in one pod; `last` is the number of the byte to read next."""

    def __init__(self, log: PrintedLog | None, uid: str, query: LogQuery, after: str) -> None:
        self._log, self._uid, self._query, self.last = log, uid, query, after
        self.problem = ""

    async def lines(self) -> AsyncGenerator[Stamped, None]:
        """Yield the lines that are new since the last call, until the last run ends if they are followed."""
        self.problem = ""
        if self._log is None:
            return
        try:
            runs = self._runs(self._log)
            place = int(self.last or first_of_last(self._log, runs, self._query.tail))
            while run := next((run for run in runs if run.end is None or run.end > place), None):
                place = max(place, run.start, self._log.oldest)
                whole = self._whole_lines(self._log, run, place)
                if not whole and run.end is None:
                    self.last = str(place)
                    await asyncio.sleep(POLL_SECONDS)
                    runs = self._runs(self._log)
                    continue
                place, start = place + len(whole), place
                self.last = str(place)
                for line in whole.removesuffix(b"\n").split(b"\n"):
                    yield self._log.time_of(start), line
                    start += len(line) + 1
                await asyncio.sleep(0)
                runs = self._runs(self._log) if self._query.follow else runs
        except OSError as error:
            self.problem = f"the file cannot be read: {error.strerror}"

    def _runs(self, log: PrintedLog) -> Sequence[PrintedRun]:
        """Return the runs that are asked for; what is not followed is over with what there is now."""
        found = log.run_before_last(self._uid) if self._query.previous else log.runs_of(self._uid)
        return found if self._query.follow else [Stretch(run.start, _end(log, run)) for run in found]

    def _whole_lines(self, log: PrintedLog, run: PrintedRun, place: int) -> bytes:
        """Return what a run has printed from this byte on: lines with their ends, and the last one if it is over."""
        there = min(PIECE, _end(log, run) - place)
        content = log.read(place, there) if there > 0 else b""
        whole, newline, _ = content.rpartition(b"\n")
        if newline:
            return whole + newline
        return content if len(content) >= MOST_LINE or place + len(content) == run.end else b""


def _end(log: PrintedLog, run: PrintedRun) -> int:
    return log.size if run.end is None else run.end


def first_of_last(log: PrintedLog, runs: Sequence[PrintedRun], number: int) -> int:
    """Return the first byte of the last lines of some runs, as far back as a few megabytes; raises OSError."""
    room, place = MOST_TAIL, 0
    for run in reversed(runs):
        end = _end(log, run)
        place = min(end, max(run.start, log.oldest, end - room))
        content = log.read(place, end - place)
        body = content.removesuffix(b"\n")
        lines = body.split(b"\n") if content else []
        if len(lines) >= number:
            return end - (len(content) - len(body)) - len(b"\n".join(lines[-number:]))
        number, room = number - len(lines), room - len(content)
        if room <= 0:
            break
    return place

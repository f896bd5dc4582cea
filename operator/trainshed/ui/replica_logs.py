"""Where the lines of logs come from: the API server, in one protocol with the files of a run on this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec


class RawLine(msgspec.Struct, frozen=True, order=True):
    """A line as it was written: when (RFC 3339 in UTC, empty if not known), by which replica, and any text."""

    time: str
    replica: str
    text: str


class LogPod(msgspec.Struct, frozen=True):
    """A container of a pod whose log is read; `runs` is whether more may be written, `gone` whether the pod is deleted.

    `restarts` counts the runs of the container before this one.
    """

    uid: str
    name: str
    namespace: str
    replica: str
    container: str
    has_started: bool
    runs: bool
    gone: bool = False
    restarts: int = 0


class LogQuery(msgspec.Struct, frozen=True):
    """Which part of a log: its last lines, or those after the last that is known; of the run before the last restart.

    With `follow` it goes on until the container ends.
    """

    tail: int
    previous: bool = False
    follow: bool = False


class OpenLog(Protocol):
    """The log of one container. `last` is the time of the last line, `problem` why the log ended early, in a sentence.

    Each call of `lines` yields those that are new since the last.
    """

    last: str

    @property
    def problem(self) -> str:
        """Why the log ended early; empty if it did not."""

    def lines(self) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the time of each line, and what was written, without its end."""


class ReplicaLogs(Protocol):
    """Opens logs. `outlive` is whether they are there after their pods are deleted."""

    outlive: bool

    def open(self, pod: LogPod, query: LogQuery, after: str = "") -> OpenLog:
        """Return the log of a container, from its last lines on, or after what `last` was of an earlier one."""

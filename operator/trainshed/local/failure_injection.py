"""Failures on purpose: a replica is killed after some time, or when a line of its output matches."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainshed.api.job import Document
from trainshed.local.runtimes.protocol import LogSink

from .output import LONGEST, is_named
from .stored_objects import job_name

#: worker-1@20s: a replica and seconds; worker-1@step 100: a replica and a regular expression.
FORM = re.compile(r"([a-z0-9][-a-z0-9./]*)@(.+)")
SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True, slots=True)
class InjectedFailure:
    """A replica, and when it is killed: after some seconds, or once when a line of its output matches."""

    replica: str
    seconds: float = 0.0
    line: re.Pattern[bytes] | None = None

    def concerns(self, pod: Document) -> bool:
        """Return whether this is the replica: its name, with or without that of the job."""
        return is_named(self.replica, job_name(pod), str(pod["metadata"]["name"]))


def parse(text: str) -> InjectedFailure:
    """Return the failure that the user has written; raises ValueError."""
    found = FORM.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a replica and a time or a pattern: worker-1@20s, or worker-1@'step 100'")
    if seconds := SECONDS.fullmatch(found[2]):
        return InjectedFailure(found[1], float(seconds[1]))
    try:
        return InjectedFailure(found[1], line=re.compile(found[2].encode()))
    except re.error as error:
        raise ValueError(f"{found[2]!r} is not a regular expression: {error}") from error


class FailureInjector:
    """Implements `runtimes.protocol.LogSink`: passes output on, and calls `kill` with the pod to be killed."""

    def __init__(self, failures: Sequence[InjectedFailure], logs: LogSink, kill: Callable[[str], None]) -> None:
        self._failures = failures
        self._done: set[tuple[int, str]] = set()
        self._logs = logs
        self._kill = kill
        self._rest: dict[tuple[str, str], bytes] = {}
        self._timers: list[asyncio.TimerHandle] = []

    def start(self, pods: Sequence[tuple[str, str]]) -> None:
        """Start the timers; `pods` are pairs of a job and the name of a pod."""
        loop = asyncio.get_running_loop()
        for failure in (found for found in self._failures if found.line is None):
            for job, pod in pods:
                if is_named(failure.replica, job, pod):
                    self._timers.append(loop.call_later(failure.seconds, self._kill, pod))

    def close(self) -> None:
        """Stop the timers."""
        for timer in self._timers:
            timer.cancel()

    def begin(self, pod: Document, container: str) -> None:
        """Pass on that a container runs."""
        self._logs.begin(pod, container)

    def write(self, pod: Document, container: str, chunk: bytes) -> None:
        """Pass output on, and look for a line that matches; of a line without end only the last part is looked at."""
        self._logs.write(pod, container, chunk)
        if not any(failure.line and failure.concerns(pod) for failure in self._failures):
            return
        key = (str(pod["metadata"]["name"]), container)
        *lines, rest = (self._rest.get(key, b"") + chunk).split(b"\n")
        self._rest[key] = rest[-LONGEST:]
        self._match(pod, lines)

    def end(self, pod: Document, container: str) -> None:
        """Match the last line of a container that has ended; it may not have an end."""
        self._logs.end(pod, container)
        self._match(pod, [self._rest.pop((str(pod["metadata"]["name"]), container), b"")])

    def _match(self, pod: Document, lines: Sequence[bytes]) -> None:
        """Kill a pod, once for each failure with a line that matches."""
        name = str(pod["metadata"]["name"])
        for number, failure in enumerate(self._failures):
            if not failure.line or not failure.concerns(pod) or (number, name) in self._done:
                continue
            if any(map(failure.line.search, lines)):
                self._done.add((number, name))
                self._kill(name)

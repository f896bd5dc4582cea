"""Reads the steps and losses of a training from the output of its replicas, or takes them from what it reports."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

from trainshed.api.foreign_text import one_line
from trainshed.api.framework import own_container
from trainshed.api.job import Document
from trainshed.api.objects import JOB_ROLE_LABEL
from trainshed.local.options import LocalJob
from trainshed.local.runtimes.protocol import LogSink
from trainshed.progress.log_shapes import by_expression, parse
from trainshed.progress.tracker import Tracker

from .observation import StepReport

#: The most lines of a replica that are read in a second, characters of one, reports that are kept, and characters of a
#: last line.
MOST_LINES, LONGEST, MOST_REPORTS, SHOWN = 2_000, 16_384, 100_000, 200


class _Reader:
    """Reads the output of one replica, of all its attempts."""

    def __init__(self, tracker: Tracker) -> None:
        self.reports: list[StepReport] = []
        self.last_line = ""
        self._tracker, self._rest = tracker, b""
        self._attempt = self._second = self._lines = 0

    def feed(self, chunk: bytes, now: float) -> None:
        *lines, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = self._rest[-LONGEST:]
        if int(now) != self._second:
            self._second, self._lines = int(now), 0
        for line in lines[: MOST_LINES - self._lines]:
            self._lines += 1
            self._read(line[-LONGEST:].decode(errors="replace"), now)

    def end(self, now: float) -> None:
        """Note that the replica has ended; what comes next is another attempt."""
        self.feed(b"\n", now)
        self._attempt += 1
        self._tracker.restarted()

    def take(self, step: int, loss: float | None, now: float) -> None:
        """Take a step; one before the last one is that of another attempt."""
        known = self.reports[-1] if self.reports else None
        if known and known.attempt == self._attempt:
            if step == known.step:
                return
            self._attempt += step < known.step
        if len(self.reports) < MOST_REPORTS:
            self.reports.append(StepReport(now, self._attempt, step, loss))

    def _read(self, line: str, now: float) -> None:
        if text := one_line(line, SHOWN):
            self.last_line = text
        if not self._tracker.read(line, now) or not (found := self._tracker.progress(now)):
            return
        at = found.printed_epoch if found.step is None else found.step
        if at is not None:  # a training that prints epochs only has these for steps
            self.take(int(at), loss_of(found.metrics), now)


class StepLog:
    """Implements `runtimes.protocol.LogSink`, and passes everything on. `clock` returns seconds."""

    def __init__(self, item: LocalJob, logs: LogSink, clock: Callable[[], float]) -> None:
        self._logs, self._clock = logs, clock
        self._known = item.framework.container
        expression = item.job.log_expression
        leads = next((pod for pod in item.pods if JOB_ROLE_LABEL in pod["metadata"]["labels"]), item.pods[0])
        self.leader = str(leads["metadata"]["name"])
        self._readers: dict[str, _Reader] = defaultdict(
            lambda: _Reader(Tracker(parse_line=by_expression(expression) if expression else parse))
        )

    @property
    def reports(self) -> tuple[StepReport, ...]:
        """The steps of the replica that leads, or else of the first one that has reported some."""
        found = self._readers[self.leader].reports
        others = (reader.reports for name, reader in sorted(self._readers.items()) if reader.reports)
        return tuple(found or next(others, ()))

    def last_line(self, pod: str) -> str:
        """Return the last line that a replica has printed."""
        return self._readers[pod].last_line

    def take(self, step: int, metrics: Iterable[tuple[str, str]]) -> None:
        """Take a step that the training has reported by other ways than its output."""
        self._readers[self.leader].take(step, loss_of(metrics), self._clock())

    def begin(self, pod: Document, container: str) -> None:
        """Note that a container has been started."""
        self._logs.begin(pod, container)

    def write(self, pod: Document, container: str, chunk: bytes) -> None:
        """Take some output of a container."""
        if self._trains(pod, container):
            self._readers[pod["metadata"]["name"]].feed(chunk, self._clock())
        self._logs.write(pod, container, chunk)

    def end(self, pod: Document, container: str) -> None:
        """Note that a container has ended."""
        if self._trains(pod, container):
            self._readers[pod["metadata"]["name"]].end(self._clock())
        self._logs.end(pod, container)

    def _trains(self, pod: Document, container: str) -> bool:
        return bool(container == own_container(self._known, pod["spec"]["containers"])["name"])


def loss_of(metrics: Iterable[tuple[str, str]]) -> float | None:
    """Return the loss among metrics: of those with the word in their name the one with the shortest; None without."""
    found = sorted(((name, value) for name, value in metrics if "loss" in name.lower()), key=lambda item: len(item[0]))
    try:
        return float(found[0][1]) if found else None
    except ValueError:
        return math.nan

"""How far a training has come, from all that its log has said so far."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from trainshed.api.status import TrainerStatus
from trainshed.api.training import trainer_status

from .log_shapes import LineReport, Metrics, parse

#: How many of the newest metrics are kept, and the reports between which the time of a step is measured.
MOST_METRICS, KEPT = 32, 64
#: Bytes of an unfinished line that are kept, and how many lines are read in a second: one takes some microseconds.
MOST_BYTES, MOST_LINES = 16_384, 500
#: Seconds after the log is opened again in which lines may come that were read before, and in which lines come at once.
REPEATED, AT_ONCE = 5.0, 0.1


class Progress(msgspec.Struct, frozen=True):
    """What is known now; None or empty what is not.

    `step` counts from the start of the training, and `total` is how many there are. `remaining` are seconds,
    `steps_per_second` is measured over the last reports, and `updated` is the time of the last one.
    """

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    metrics: Metrics = ()
    remaining: float | None = None
    steps_per_second: float | None = None
    updated: float = 0.0

    @property
    def percentage(self) -> int | None:
        """How much is done, 100 only at the end; None if the end is not known."""
        if self.step is not None and self.total:
            return min(100, self.step * 100 // self.total)
        if self.epoch is not None and self.epochs:
            return min(100, int(self.epoch * 100 / self.epochs))
        return None

    def status(self, now: datetime) -> TrainerStatus:
        """Return it as a report of this time."""
        return trainer_status(
            now,
            self.metrics,
            percentage=self.percentage,
            remaining_seconds=self.remaining,
            step=self.step,
            total_steps=self.total,
            epoch=self.epoch,
            steps_per_second=self.steps_per_second,
        )


class Tracker:
    """Reads the log of the one replica that reports, line by line. Times are seconds of any clock that goes forward.

    Of a log that says much the last `most_lines` of what arrives in a second are read. `updated` is the time of the
    last line that said something, 0 before the first.
    """

    def __init__(self, most_lines: int = MOST_LINES, parse_line: Callable[[str], LineReport | None] = parse) -> None:
        self._parse = parse_line
        self._most_lines = most_lines
        self._epoch: float | None = None
        self._epochs: int | None = None
        self._total: int | None = None
        self._step: int | None = None
        self._metrics: dict[str, str] = {}
        self._times: list[tuple[float, int]] = []
        self._bar: LineReport | None = None
        self.updated = 0.0
        self._rest = b""
        self._second, self._read_lines = 0, 0
        self._known_until = 0.0

    def reopened(self, now: float) -> None:
        """Note that the log is read again from a line that may be known already."""
        self._rest = b""
        self._known_until = now + REPEATED

    def feed(self, chunk: bytes, now: float) -> int:
        """Take a part of the log, cut anywhere; return the number of lines that were read.

        A line feed ends a line, a carriage return a state of a bar.
        """
        *lines, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = self._rest[-MOST_BYTES:]
        if int(now) != self._second:
            self._second, self._read_lines = int(now), 0
        left = self._most_lines - self._read_lines
        wanted = lines[-left:] if left > 0 else []
        self._read_lines += len(wanted)
        for line in wanted:
            self.read(line[-MOST_BYTES:].decode(errors="replace"), now)
        return len(wanted)

    def read(self, line: str, now: float) -> bool:
        """Take a line, or one state of a progress bar; return whether it said something about the training."""
        report = self._parse(line)
        if report is None or not self._is_training(report):
            return False
        self._epochs = report.epochs or self._epochs
        if report.epoch is not None:
            self._epoch = report.epoch
        self._take_step(report, now)
        for name, value in report.metrics:
            self._metrics.pop(name, None)
            self._metrics[name] = value
            if len(self._metrics) > MOST_METRICS:
                del self._metrics[next(iter(self._metrics))]
        self.updated = now
        return True

    def progress(self, now: float) -> Progress | None:
        """Return what is known, None if nothing is."""
        if not self.updated:
            return None
        rate = self._rate()
        known = Progress(
            self._step, self._total, self._epoch, self._epochs, tuple(self._metrics.items()),
            steps_per_second=rate, updated=self.updated,
        )  # fmt: skip
        return msgspec.structs.replace(known, remaining=self._remaining(rate, now))

    def _is_training(self, report: LineReport) -> bool:
        """Return whether a bar is that of the training: a program may show others, such as of an evaluation."""
        if not report.bar:
            return True
        if report.step is None:
            return report.epoch is not None
        if self._bar and not report.title and (report.total or 0) < (self._bar.total or 0):
            return False
        self._bar = report
        return True

    def _take_step(self, report: LineReport, now: float) -> None:
        if report.total is not None and report.step is None:
            self._total = report.total
        if report.step is None:
            return
        step, total = report.step, report.total or self._total
        if report.of_epoch and report.total:
            done = int(self._epoch or 0)
            step += done * report.total
            total = self._epochs * report.total if self._epochs else None
        if self._step is not None and step < self._step:
            if report.of_epoch or now < self._known_until:
                return  # an evaluation after the epoch, or a line that was read before
            self._times.clear()  # the training has begun again
        self._step, self._total = step, total
        if self._times and now - self._times[-1][0] < AT_ONCE:
            self._times[-1] = (self._times[-1][0], step)  # what was written for a while comes at once
        elif not self._times or step > self._times[-1][1]:
            self._times = [*self._times[1 - KEPT :], (now, step)]

    def _rate(self) -> float | None:
        if not self._times:
            return None
        (began, first), (ended, last) = self._times[0], self._times[-1]
        return (last - first) / (ended - began) if ended > began else None

    def _remaining(self, rate: float | None, now: float) -> float | None:
        if self._step is None or self._total is None or not rate:
            return None
        since = now - self._times[-1][0]
        return max(0.0, (self._total - self._step) / rate - since)

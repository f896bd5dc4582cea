"""How far a training has come, from all that its log has said so far."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import msgspec

from trainshed.api.trainer_status import TrainerStatus
from trainshed.api.training import pace, trainer_status

from .log_shapes import LineReport, Metrics, parse

#: How many of the newest metrics are kept, and the reports between which the time of a step is measured.
MOST_METRICS, KEPT = 32, 64
#: Bytes of an unfinished line that are kept, and how many lines are read in a second: one takes some microseconds.
MOST_BYTES, MOST_LINES = 16_384, 500
#: The last states of a line that are read: each replaces the one before, but a bar may be cleared to print a record.
MOST_STATES = 3
#: Seconds after the log is opened again in which lines may come that were read before, and in which lines come at once.
REPEATED, AT_ONCE = 5.0, 0.1
#: The time at the start of a line, as a kubelet writes it: to the nanosecond.
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")
#: What is no state of a bar: it moves the cursor back.
BLANK = b" \b\t"


class Progress(msgspec.Struct, frozen=True):
    """What is known now; None or empty what is not.

    `step` counts from the start of the training, and `total` is how many there are. `epoch` is how many are over, and
    `printed_epoch` what the training calls the one that runs. `remaining` are seconds, `steps_per_second` is measured
    over the last reports, and `updated` is the time of the last one.
    """

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    metrics: Metrics = ()
    remaining: float | None = None
    steps_per_second: float | None = None
    updated: float = 0.0
    printed_epoch: float | None = None

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
            epoch=self.printed_epoch,
            steps_per_second=self.steps_per_second,
        )


class Tracker:
    """Reads the log of the one replica that reports, line by line. Times are seconds of any clock that goes forward.

    Of a log that says much `most_lines` are read in a second, and the last ones of the others wait for the next second.
    `updated` is the time of the last line that said something new, 0 before the first. `stamped` are lines that begin
    with their time: those up to the last one that was read are skipped when the log is opened again, and those up to
    `known`, which was before this tracker, are read without being news.
    """

    def __init__(
        self,
        most_lines: int = MOST_LINES,
        parse_line: Callable[[str], LineReport | None] = parse,
        *,
        stamped: bool = False,
        known: datetime | None = None,
    ) -> None:
        self._parse = parse_line
        self._epoch: float | None = None
        self._printed_epoch: float | None = None
        self._first_epoch = 1
        self._epochs: int | None = None
        self._batches: int | None = None
        self._total: int | None = None
        self._step: int | None = None
        self._metrics: dict[str, str] = {}
        self._times: list[tuple[float, int]] = []
        self._bar: LineReport | None = None
        self.updated = 0.0
        self._rest = b""
        #: Whether lines have times, that of the last whole line and of the one that has begun, and what is skipped.
        self._stamped, self._known = stamped, known
        self.last_line: datetime | None = None
        self._line: datetime | None = None
        self._begun = self._skips = False
        self._skipped_to: datetime | None = None
        #: The lines that are not read yet, and whether each is news; how many are states of the line that has begun.
        self._unread: deque[tuple[bytes, bool]] = deque(maxlen=most_lines)
        self._of_line = self._second = self._read_lines = 0
        self._known_until = 0.0

    def reopened(self, now: float) -> None:
        """Note that the log is read again from a line that may be known already."""
        self._rest, self._begun, self._skips = b"", False, False
        self._skipped_to = self.last_line
        self._known_until = now + REPEATED

    def restarted(self) -> None:
        """Note that the program was started again: how it numbers its epochs is still known, and nothing else."""
        self._step = self._epoch = self._printed_epoch = self._bar = None
        self._rest, self._begun, self._skips = b"", False, False
        self._times.clear()
        self._metrics.clear()

    @property
    def behind(self) -> bool:
        """Whether lines wait until they are read."""
        return bool(self._unread)

    @property
    def within_line(self) -> bool:
        """Whether a line has begun that has not ended."""
        return self._begun or bool(self._rest)

    def feed(self, chunk: bytes, now: float, most: int = MOST_LINES) -> int:
        """Take a part of the log, cut anywhere; return the number of lines that were read, which are `most` at most.

        A line feed ends a line, a carriage return a state of a bar.
        """
        *ended, rest = (self._rest + chunk).split(b"\n")
        for line in ended:
            self._add(line)
            if self._begun and not self._skips:
                self.last_line = self._line or self.last_line
            self._begun = False
        states, returned, self._rest = rest.rpartition(b"\r")
        if returned:
            self._add(states)
        self._rest = self._rest[-MOST_BYTES:]
        if int(now) != self._second:
            self._second, self._read_lines = int(now), 0
        return self._catch_up(now, min(most, (self._unread.maxlen or 0) - self._read_lines))

    def _add(self, text: bytes) -> None:
        """Take the end of a line, or states of a bar that goes on."""
        if not self._begun:
            self._begun, self._line, self._skips, self._of_line = True, None, False, 0
            if self._stamped and (found := STAMP.match(text)):
                text = text[found.end() :]
                with suppress(ValueError):
                    self._line = datetime.fromisoformat(found[1].decode())
            self._skips = bool(self._line and self._skipped_to and self._line <= self._skipped_to)
        if not self._skips:
            news = not (self._line and self._known and self._line <= self._known)
            states = [state for state in text.split(b"\r") if state.strip(BLANK)]
            for state in states[-MOST_STATES:]:
                self._of_line = min(self._of_line, len(self._unread))
                if self._of_line == MOST_STATES:
                    del self._unread[-MOST_STATES]
                    self._of_line -= 1
                self._unread.append((state[-MOST_BYTES:], news))
                self._of_line += 1

    def _catch_up(self, now: float, most: int) -> int:
        count = max(0, min(most, len(self._unread)))
        for _ in range(count):
            line, news = self._unread.popleft()
            self.read(line.decode(errors="replace"), now, news=news)
        self._read_lines += count
        return count

    def read(self, line: str, now: float, *, news: bool = True) -> bool:
        """Take a line, or one state of a progress bar; return whether it said something about the training."""
        report = self._parse(line)
        if report is None or not self._is_training(report):
            return False
        self._take_epoch(report, now)
        if not self._take_step(report, now):
            return False
        for name, value in report.metrics:
            self._metrics.pop(name, None)
            self._metrics[name] = value
            if len(self._metrics) > MOST_METRICS:
                del self._metrics[next(iter(self._metrics))]
        if news:
            self.updated = now
        return True

    def progress(self, now: float) -> Progress | None:
        """Return what is known, None if nothing is."""
        self._catch_up(now, len(self._unread))
        if not self.updated:
            return None
        rate = pace(self._times)
        known = Progress(
            self._step, self._total, self._epoch, self._epochs, tuple(self._metrics.items()),
            steps_per_second=rate, updated=self.updated, printed_epoch=self._printed_epoch,
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

    def _take_epoch(self, report: LineReport, now: float) -> None:
        self._epochs = report.epochs or self._epochs
        if report.epoch is None:
            return
        epoch = report.epoch
        if report.numbered:
            # A program that numbers its epochs from 0 says so with the first one.
            self._first_epoch = 0 if epoch < 1 else self._first_epoch
            epoch -= self._first_epoch
        known = -1.0 if self._epoch is None else self._epoch
        if epoch < known and now < self._known_until:
            return  # a line that was read before
        announced = report.numbered and report.epochs is not None and report.step is None and not report.metrics
        if (announced and epoch <= known) or (report.of_epoch and epoch < known):
            self._step = None  # another training has begun, such as a second fit() of Keras, or it has begun again
            self._times.clear()
        if announced or epoch != known:
            self._batches = None
        self._epoch, self._printed_epoch = epoch, report.epoch

    def _take_step(self, report: LineReport, now: float) -> bool:
        """Take the step of a line; return whether that is one of the training, and no older one that comes again."""
        if report.total is not None and report.step is None:
            self._total = report.total
        if report.step is None:
            return True
        step, total = report.step, report.total or self._total
        if report.of_epoch and report.total:
            self._batches = self._batches or report.total
            if report.total != self._batches:
                return False  # an evaluation after the epoch
            done = int(self._epoch or 0)
            step += done * report.total
            total = self._epochs * report.total if self._epochs else None
        if self._step is not None and step < self._step:
            if report.of_epoch or now < self._known_until:
                return False  # an evaluation of as many batches, or a line that was read before
            self._times.clear()  # the training has begun again
        self._step, self._total = step, total
        if self._times and now - self._times[-1][0] < AT_ONCE:
            self._times[-1] = (self._times[-1][0], step)  # what was written for a while comes at once
        elif not self._times or step > self._times[-1][1]:
            self._times = [*self._times[1 - KEPT :], (now, step)]
        return True

    def _remaining(self, rate: float | None, now: float) -> float | None:
        if self._step is None or self._total is None or not rate:
            return None
        since = now - self._times[-1][0]
        return max(0.0, (self._total - self._step) / rate - since)

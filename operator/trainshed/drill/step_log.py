"""Reads the steps and losses of a training from the output of its replicas, or takes them from what it reports."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.api.framework import own_container
from trainshed.api.job import Document
from trainshed.api.objects import JOB_ROLE_LABEL
from trainshed.api.trainer_status import TrainerStatus
from trainshed.local.options import LocalJob
from trainshed.local.runtimes.protocol import LogSink
from trainshed.progress.log_shapes import by_expression, parse
from trainshed.progress.tracker import Tracker

from .observation import StepReport

#: The most lines of a replica that are read in a second, characters of one, reports of an attempt that are kept,
#: attempts of which some are, and characters of a last line.
MOST_LINES, LONGEST, MOST_REPORTS, MOST_ATTEMPTS, SHOWN = 2_000, 16_384, 20_000, 100, 200


class _Steps:
    """The steps of one replica, of all its attempts, from one source; `without` counts the reports that had none."""

    def __init__(self) -> None:
        self.reports: list[StepReport] = []
        self.attempt = self.without = 0
        self._kept = 0
        self._are_epochs = True

    def end(self) -> None:
        """Note that what comes next is of another attempt."""
        self.attempt += 1

    def take(self, found: StepReport, *, is_epoch: bool = False) -> None:
        """Take a step. One before the last one is of another attempt within the same container.

        Epochs count only as long as no step is known; `attempt` of a report is that of the container.
        """
        if is_epoch and not self._are_epochs:
            return
        if self._are_epochs and not is_epoch:
            self.reports.clear()
            self._are_epochs = False
        known = self.reports[-1] if self.reports else None
        if known and found.attempt < self.attempt and known.attempt == self.attempt:
            return  # what has ended was slower than what was started after it
        if known and known.attempt == found.attempt:
            if found.step == known.step:
                return
            if found.step < known.step:
                self.attempt += 1
                found = msgspec.structs.replace(found, attempt=self.attempt, began_again=True)
        self._keep(found, known)

    def _keep(self, found: StepReport, known: StepReport | None) -> None:
        """Keep the first reports of each attempt, and the last one."""
        self._kept = self._kept + 1 if known and known.attempt == found.attempt else 1
        if self._kept > MOST_REPORTS or (known and len(self.reports) > MOST_REPORTS * MOST_ATTEMPTS):
            self.reports[-1] = found
        else:
            self.reports.append(found)


class _Reader:
    """Reads the output of one replica, and takes what it reports by itself, which counts if there is any."""

    def __init__(self, tracker: Tracker) -> None:
        self.printed, self.reported = _Steps(), _Steps()
        self.last_line = ""
        self._tracker, self._rest = tracker, b""
        self._second = self._lines = 0
        self._skipped = False
        self._runs, self._uid = False, ""

    @property
    def reports(self) -> list[StepReport]:
        """The steps."""
        return self.reported.reports or self.printed.reports

    def begin(self, uid: str) -> None:
        """Note that the container of a pod of this uid has been started. Its first lines are always read."""
        self._runs, self._uid = True, uid
        self._lines, self._skipped = 0, False

    def feed(self, chunk: bytes, now: float) -> None:
        *lines, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = self._rest[-LONGEST:]
        if int(now) != self._second:
            self._second, self._lines = int(now), 0
        read = lines[: MOST_LINES - self._lines]
        self._lines += len(read)
        for line in read:
            self._read(line[-LONGEST:].decode(errors="replace"), now)
        self._skipped = self._skipped or len(read) < len(lines)

    def end(self, now: float) -> None:
        """Note that the replica has ended; what comes next is another attempt."""
        self.feed(b"\n", now)
        self.printed.end()
        self.reported.end()
        self._runs = False
        self._tracker.restarted()

    def hear(self, step: int | None, loss: float | None, uid: str, now: float) -> None:
        """Take what a pod of this uid has reported; it may arrive when its container has ended already."""
        if step is None:
            self.reported.without += 1
            return
        late = not self._runs or uid != self._uid
        self.reported.take(StepReport(now, max(0, self.reported.attempt - late), step, loss))

    def _read(self, line: str, now: float) -> None:
        if text := one_line(line, SHOWN):
            self.last_line = text
        if not self._tracker.read(line, now) or not (found := self._tracker.progress(now)):
            return
        at = found.printed_epoch if found.step is None else found.step
        if at is not None:  # a training that prints epochs only has these for steps
            attempt, loss = self.printed.attempt, loss_of(found.metrics)
            self.printed.take(StepReport(now, attempt, int(at), loss, self._skipped), is_epoch=found.step is None)
            self._skipped = False


class StepLog:
    """Implements `runtimes.protocol.LogSink`, and passes everything on. `clock` returns seconds.

    `changed` is called when a step may have been reported.
    """

    def __init__(
        self, item: LocalJob, logs: LogSink, clock: Callable[[], float], changed: Callable[[], None] = lambda: None
    ) -> None:
        self._logs, self._clock, self._changed = logs, clock, changed
        self._known = item.framework.container
        expression = item.job.log_expression
        leads = next((pod for pod in item.pods if JOB_ROLE_LABEL in pod["metadata"]["labels"]), item.pods[0])
        self.leader = str(leads["metadata"]["name"])
        self._readers: dict[str, _Reader] = defaultdict(
            lambda: _Reader(Tracker(parse_line=by_expression(expression) if expression else parse))
        )

    @property
    def reports(self) -> Sequence[StepReport]:
        """The steps of the replica that leads, or else of the first one that has reported some; to be read only."""
        found = self._readers[self.leader].reports
        others = (reader.reports for _, reader in sorted(self._readers.items()) if reader.reports)
        return found or next(others, ())

    @property
    def without_step(self) -> int:
        """How many reports the training has sent that had no step."""
        return sum(reader.reported.without for reader in self._readers.values())

    def last_line(self, pod: str = "") -> str:
        """Return the last line that a replica, or else the one that leads, has printed."""
        return self._readers[pod or self.leader].last_line

    def hear(self, report: TrainerStatus, pod: tuple[str, str]) -> None:
        """Take what the training has reported by other ways than its output, from the pod of this name and uid."""
        name, uid = pod
        self._readers[name].hear(report.step, loss_of(report.metrics), uid, self._clock())
        self._changed()

    def begin(self, pod: Document, container: str) -> None:
        """Note that a container has been started."""
        if self._trains(pod, container):
            self._readers[pod["metadata"]["name"]].begin(str(pod["metadata"]["uid"]))
        self._logs.begin(pod, container)

    def write(self, pod: Document, container: str, chunk: bytes) -> None:
        """Take some output of a container."""
        if self._trains(pod, container):
            self._readers[pod["metadata"]["name"]].feed(chunk, self._clock())
            self._changed()
        self._logs.write(pod, container, chunk)

    def end(self, pod: Document, container: str) -> None:
        """Note that a container has ended."""
        if self._trains(pod, container):
            self._readers[pod["metadata"]["name"]].end(self._clock())
            self._changed()
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

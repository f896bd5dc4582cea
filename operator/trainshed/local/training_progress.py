"""Reads from the output of the replica that leads how far the training of each job has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from trainshed.api.job import Document, ProgressSource
from trainshed.api.objects import JOB_ROLE_LABEL
from trainshed.local.runtimes.protocol import LogSink

from .options import LocalJob
from .stored_objects import job_name

if TYPE_CHECKING:  # compiling its expressions would delay the first process of a run
    from trainshed.progress.tracker import Progress, Tracker


#: Seconds between two reports of a job, as of an operator that follows logs.
REPORT_EVERY = 5.0


class TrainingProgress:
    """Implements `runtimes.protocol.LogSink`, and passes everything on. `clock` returns seconds.

    `report` is called with the pod and what is known, from time to time, for jobs that report by their logs; with
    `reports_all` also for those that have not said how they report.
    """

    def __init__(
        self, jobs: Iterable[LocalJob], logs: LogSink, clock: Callable[[], float], *, reports_all: bool = False
    ) -> None:
        self._logs, self._clock = logs, clock
        self._trackers: dict[str, Tracker] = {}
        self._containers: dict[str, str] = {}
        self._expressions: dict[str, str] = {}
        self._reported: dict[str, float] = {}
        self.report: Callable[[Document, Progress], None] = lambda _pod, _found: None
        for item in jobs:
            leader = next((pod for pod in item.pods if JOB_ROLE_LABEL in pod["metadata"]["labels"]), item.pods[0])
            names = [container["name"] for container in leader["spec"]["containers"]]
            own = item.framework.container.name
            self._containers[leader["metadata"]["name"]] = own if own in names else names[0]
            self._expressions[item.job.name] = item.job.log_expression
            if item.job.progress is ProgressSource.LOGS or (reports_all and item.job.progress is ProgressSource.NONE):
                self._reported[item.job.name] = -REPORT_EVERY

    def begin(self, pod: Document, container: str) -> None:
        """Pass on that a container runs."""
        self._logs.begin(pod, container)

    def write(self, pod: Document, container: str, chunk: bytes) -> None:
        """Take some output of a container."""
        self._read(pod, container, chunk)
        self._logs.write(pod, container, chunk)

    def end(self, pod: Document, container: str) -> None:
        """Read the last line of a container that has ended, which may have no end."""
        self._read(pod, container, b"\n", last=True)
        self._logs.end(pod, container)

    def of(self, job: Document) -> Progress | None:
        """Return how far the training of a job has come, None if its output has not said it."""
        tracker = self._trackers.get(job["metadata"]["name"])
        return tracker.progress(self._clock()) if tracker else None

    def _read(self, pod: Document, container: str, chunk: bytes, *, last: bool = False) -> None:
        if self._containers.get(pod["metadata"]["name"]) != container:
            return
        if (name := job_name(pod)) not in self._trackers:
            from trainshed.progress.log_shapes import by_expression, parse  # noqa: PLC0415 - as above
            from trainshed.progress.tracker import Tracker  # noqa: PLC0415 - as above

            own = self._expressions[name]
            self._trackers[name] = Tracker(parse_line=by_expression(own) if own else parse)
        tracker, now = self._trackers[name], self._clock()
        tracker.feed(chunk, now)
        due = name in self._reported and (last or now - self._reported[name] >= REPORT_EVERY)
        if due and (found := tracker.progress(now)):
            self._reported[name] = now
            self.report(pod, found)

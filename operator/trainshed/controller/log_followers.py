"""Follows the log of the replica that leads, of each job that asks for it, and reports how far its training is."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import datetime, timedelta

import msgspec

from trainshed.api.actions import Snapshot
from trainshed.api.coerce import format_time
from trainshed.api.framework import child_name
from trainshed.api.job import Job, ProgressSource
from trainshed.api.objects import Phase, Pod
from trainshed.api.trainer_status import TrainerStatus
from trainshed.client import ApiError, Forbidden
from trainshed.client.transport import Path, RestClient
from trainshed.plan.messages import job_events
from trainshed.process import job_fields
from trainshed.progress.log_shapes import by_expression, parse
from trainshed.progress.tracker import Tracker

from .cache import Cache
from .events import EventRecorder
from .training_pods import leader

#: Seconds between two reports of a job, and the number of lines that are read in a second, of a job and of all jobs.
REPORT_EVERY, MAX_LINES, MAX_ALL_LINES = 5.0, 20, 2_000
#: How much of a second may be spent on lines until the others wait for the next one: a usual one takes 20 µs, a hostile
#: one fifty times as long.
MAX_SECONDS = 0.2
#: A log of which more bytes arrive in these seconds is closed for the rest of them: then its last lines are read.
MAX_BYTES, WINDOW = 64 * 1024, 10.0
#: The lines with which a log begins, and the seconds of it that are read again after an interruption.
TAIL, OVERLAP = 10, 2.0
#: The most bytes of the lines that are read after the end of a pod, as a runtime cuts lines at 16 KiB; and the seconds.
LAST_BYTES, LAST_SECONDS = MAX_LINES * 16 * 1024, 30.0
#: The number of logs that are opened at a time: many are when an operator becomes the leader.
MAX_OPENING = 16
#: The first and the longest pause in seconds before a log is opened again, and the pause without the right to do it. A
#: log that was open for longer than STEADY begins with the first.
FIRST_PAUSE, LONGEST_PAUSE, REFUSED_PAUSE, STEADY = 1.0, 60.0, 600.0, 60.0
#: The number of jobs that wait until another log is not followed any more.
MAX_WAITING = 10_000

log = logging.getLogger(__name__)


class LogSource(msgspec.Struct, frozen=True):
    """A container whose log is followed: that of the replica that leads a job. `reported` is the stored report."""

    cache: Cache
    job: Job
    pod: str
    uid: str
    container: str
    reported: TrainerStatus | None = None

    @property
    def path(self) -> Path:
        """The path of the log."""
        return Path("/api/v1", "pods", self.job.namespace, self.pod, "log")

    def writes(self) -> bool:
        """Return whether the pod has not ended, as far as the cache shows."""
        found = self.cache.pods.store.items.get(self.uid)
        return found is not None and not found.over


class LogReader:
    """What is known from the log of a source. `since` is when something arrived last, None at first.

    What the log had said before the last report that is stored is read, but is no news.
    """

    def __init__(self, source: LogSource, now: Callable[[], datetime], known: datetime | None = None) -> None:
        self._source, self._now = source, now
        own = source.job.log_expression
        self._tracker = Tracker(MAX_LINES, by_expression(own) if own else parse, stamped=True, known=known)
        self._timer: asyncio.TimerHandle | None = None
        self._reported = -REPORT_EVERY
        self._last_updated = 0.0
        self.since: datetime | None = None

    def query(self, *, last: bool = False) -> dict[str, str]:
        """Return the options with which the log is opened, also again; the last time for what it has then."""
        self._tracker.reopened(_clock())
        how = {"limitBytes": str(LAST_BYTES)} if last else {"follow": "true"}
        lines = {"tailLines": str(MAX_LINES if last else TAIL), "timestamps": "true"}
        query = {"container": self._source.container, **lines, **how}
        if self.since:
            query["sinceTime"] = format_time(self.since)
        return query

    def take(self, piece: bytes, most: int = MAX_LINES) -> int:
        """Take a piece of the log, and report soon if it says something; return the number of lines that were read."""
        before = self._tracker.updated
        lines = self._tracker.feed(piece, _clock(), most)
        # Of a line that has not ended, which may be long, the log shows only the parts that are new.
        within = self._tracker.last_line is None or self._tracker.within_line
        self.since = self._now() - timedelta(seconds=OVERLAP) if within else self._tracker.last_line
        if (self._tracker.updated > before or self._tracker.behind) and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._reported + REPORT_EVERY, self.report)
        return lines

    def report(self) -> None:
        """Report what is known, if that is not reported already."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer, self._reported = None, _clock()
        if (found := self._tracker.progress(_clock())) and found.updated > self._last_updated:
            job, self._last_updated = self._source.job, found.updated
            self._source.cache.training.report(
                job.key, job.uid, found.status(self._now()), (self._source.pod, self._source.uid)
            )

    def end(self) -> None:
        """Report what is known, and let the job be woken soon: no line follows."""
        self.report()
        self._source.cache.training.ended(self._source.job.key, self._source.job.uid)


class LogFollowers:
    """Follows at most `most` logs; the others wait. `now` is the time, for reports."""

    def __init__(self, rest: RestClient, recorder: EventRecorder, now: Callable[[], datetime], most: int) -> None:
        self._rest, self._recorder, self._now, self._most = rest, recorder, now, most
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiting: OrderedDict[str, LogSource] = OrderedDict()
        #: By the uid of the pod whose log is to be opened again, to be set when the pod is over.
        self._pausing: dict[str, asyncio.Event] = {}
        self._opening = asyncio.Semaphore(MAX_OPENING)
        self._second, self._lines, self._spent = 0, 0, 0.0

    def saw(self, cache: Cache, snapshot: Snapshot) -> None:
        """Follow the log of a job that asks for it, if the replica that leads runs."""
        for pod in snapshot.pods if self._pausing else ():
            if pod.over and (pausing := self._pausing.get(pod.uid)):
                pausing.set()
        source = source_of(cache, snapshot) if snapshot.job.progress is ProgressSource.LOGS else None
        if source is None or source.uid in self._tasks or source.uid in self._waiting:
            return
        if len(self._tasks) < self._most:
            self._start(source)
        elif len(self._waiting) < MAX_WAITING:
            self._waiting[source.uid] = source
            self._recorder.record(source.job, job_events.logs_wait(self._most))

    def stop(self) -> None:
        """Follow nothing any more: another replica leads, or the process ends."""
        self._waiting.clear()
        for task in self._tasks.values():
            task.cancel()

    def _start(self, source: LogSource) -> None:
        task = asyncio.create_task(self._follow(source), name=f"log of {source.pod}")
        self._tasks[source.uid] = task
        task.add_done_callback(lambda _task: self._ended(source.uid))

    def _ended(self, uid: str) -> None:
        self._tasks.pop(uid, None)
        while self._waiting and len(self._tasks) < self._most:
            _, source = self._waiting.popitem(last=False)
            if source.writes():
                self._start(source)

    async def _follow(self, source: LogSource) -> None:
        """Read the log until the pod has ended, also after an interruption and a restart of the container."""
        stored = source.cache.training.of(source.job.uid) or source.reported
        # The time of a report is stored without parts of its second.
        known = stored.updated + timedelta(seconds=1) if stored else None
        reader, pause = LogReader(source, self._now, known), FIRST_PAUSE
        try:
            while source.writes():
                began = _clock()
                wait = await self._read(source, reader)
                pause = FIRST_PAUSE if _clock() - began > STEADY else min(pause * 2, LONGEST_PAUSE)
                if source.writes():
                    await self._pause(source, wait or random.uniform(pause / 2, pause))  # noqa: S311 - not a secret
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._read(source, reader, last=True)
        finally:
            reader.end()

    async def _pause(self, source: LogSource, seconds: float) -> None:
        """Wait some seconds, but not longer than the pod runs: it may be deleted soon after its end."""
        over = self._pausing[source.uid] = asyncio.Event()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await over.wait()
        finally:
            del self._pausing[source.uid]

    async def _read(self, source: LogSource, reader: LogReader, *, last: bool = False) -> float:
        """Read the log until it ends or breaks off; return the seconds after which it is to be opened again, if known.

        That the log of a training says nothing for long, so that the request fails, proves nothing. What was said
        since it broke off is read after the end of the pod, the last time.
        """
        async with aclosing(self._rest.log_pieces(source.path, reader.query(last=last))) as pieces:
            began, arrived = _clock(), 0
            try:
                async with self._opening:
                    await anext(pieces)
                async for piece in pieces:
                    if (now := _clock()) - began >= WINDOW:
                        began, arrived = now, 0
                    arrived += len(piece)
                    self._take(reader, piece)
                    if arrived > MAX_BYTES and not last:
                        return max(FIRST_PAUSE, began + WINDOW - now)
                reader.take(b"\n")  # a log that has ended may do so within a line
            except Forbidden as refused:
                self._recorder.record(source.job, job_events.logs_refused(str(refused)))
                return REFUSED_PAUSE
            except ApiError as error:
                key = source.job.key
                log.debug("%s: the log of %s broke off: %s", key, source.pod, error, extra=job_fields(key))
        return 0.0

    def _take(self, reader: LogReader, piece: bytes) -> None:
        """Let a reader take a piece, of whose lines none is read yet if all logs have had too many in this second."""
        began = _clock()
        if int(began) != self._second:
            self._second, self._lines, self._spent = int(began), 0, 0.0
        room = MAX_ALL_LINES - self._lines if self._spent < MAX_SECONDS else 0
        self._lines += reader.take(piece, max(0, room))
        self._spent += _clock() - began


def source_of(cache: Cache, snapshot: Snapshot) -> LogSource | None:
    """Return the container whose log tells how far a job is, None if it does not run."""
    replica = leader(snapshot.job, snapshot.framework)
    name = child_name(snapshot.job, replica) if replica else ""
    pod = next((pod for pod in snapshot.pods if pod.name == name), None)
    group = snapshot.job.of(replica.role) if replica else None
    if pod is None or group is None or not _runs(pod, group.container):
        return None
    return LogSource(cache, snapshot.job, pod.name, pod.uid, group.container, snapshot.status.trainer)


def _runs(pod: Pod, name: str) -> bool:
    own = next((container for container in pod.containers if container.name == name), None)
    return pod.phase is Phase.RUNNING and own is not None and own.started is not None and own.exit_code is None


def _clock() -> float:
    return asyncio.get_running_loop().time()

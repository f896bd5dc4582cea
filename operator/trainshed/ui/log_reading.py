"""Reads the logs of the replicas of a job for a page: the last lines of all, and what comes after, within bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress

import msgspec

from trainshed.client.http import CONNECT_TIMEOUT
from trainshed.client.informer import WATCH
from trainshed.plan.messages.phrases import plural
from trainshed.views.log_lines import last_part
from trainshed.views.rows import listed

from .log_filters import LogFilters, matcher
from .replica_logs import LogPod, LogQuery, OpenLog, RawLine, ReplicaLogs

#: The logs that are read at a time, and the most that a page follows.
AT_ONCE, MOST_FOLLOWED = 16, 64
#: The lines of all logs together that are read for the last ones, the fewest of each, and the bytes of all.
MOST_READ, FEWEST, MOST_BYTES = 40_000, 20, 64 << 20
#: The lines that wait for a page that is slow, and those that it gets at a time; the others are left out.
MOST_WAITING, MOST_AT_ONCE = 5_000, 500
#: Seconds between two checks for new pods and containers, and after a log that could not be read.
POLL_SECONDS, AGAIN = 1.0, 5.0
#: Seconds after which a log is opened again: the right to read it is asked only then, and a silent one is not taken for
#: one that is lost. After one that could not be read it is sooner; by then a server would have refused a connection.
LASTS, PROVEN = WATCH, CONNECT_TIMEOUT + 1


class LastLines(msgspec.Struct, frozen=True):
    """The last lines of the logs of some pods by time, what could not be read, and the time of the last of each pod."""

    lines: tuple[RawLine, ...]
    problems: tuple[str, ...]
    known: dict[str, str]


def chosen(pods: Sequence[LogPod], filters: LogFilters, *, outlive: bool) -> tuple[list[LogPod], list[str]]:
    """Return the pods whose logs are read, and in sentences why others are not."""
    named = [pod for pod in pods if not filters.replicas or {pod.name, pod.replica} & set(filters.replicas)]
    there = [pod for pod in named if outlive or not pod.gone]
    said = []
    if filters.replicas and not named:
        said.append(f"There is no pod of {listed(filters.replicas)}.")
    elif not pods:
        said.append("The job has no pods, and so no logs.")
    if gone := len(named) - len(there):
        said.append(f"The logs of {plural(gone, 'deleted pod')} went with {'it' if gone == 1 else 'them'}.")
    started = [pod for pod in there if pod.has_started]
    if not started and there:
        said.append(f"No container has started yet: {listed([pod.replica for pod in there])}.")
    return started, said


async def last_lines(logs: ReplicaLogs, pods: Sequence[LogPod], filters: LogFilters) -> LastLines:
    """Return the last lines of all these pods together that are wanted."""
    turns = asyncio.Semaphore(AT_ONCE)
    tail = min(filters.lines, max(FEWEST, MOST_READ // max(1, len(pods))))
    query, most = LogQuery(tail, previous=filters.previous), MOST_BYTES // max(1, len(pods))

    async def read(pod: LogPod) -> tuple[deque[RawLine], OpenLog]:
        async with turns:
            log = logs.open(pod, query)
            return await _last(pod, log, filters, most), log

    found = await asyncio.gather(*map(read, pods))
    lines = sorted((line for part, _ in found for line in part), key=lambda line: line.time)
    problems = [f"{pod.replica}: {log.problem}" for pod, (_, log) in zip(pods, found, strict=True) if log.problem]
    known = {pod.uid: log.last for pod, (_, log) in zip(pods, found, strict=True)}
    return LastLines(tuple(lines[-filters.lines :]), tuple(problems), known)


async def _last(pod: LogPod, log: OpenLog, filters: LogFilters, most: int) -> deque[RawLine]:
    is_wanted, _ = matcher(filters)
    kept, size = deque[RawLine](maxlen=filters.lines), 0
    async with aclosing(log.lines()) as lines:
        async for time, content in lines:
            size += len(content)
            text = shown(content)
            if is_wanted is None or is_wanted(text):
                kept.append(RawLine(time, pod.replica, text))
            if size > most:  # of lines without end
                break
    return kept


def shown(content: bytes) -> str:
    """Return the text of a line, of which a terminal shows the part after the last carriage return."""
    return last_part(content).decode(errors="replace")


class WaitingLines:
    """Lines that wait for a page; when it is slow, the oldest are left out and counted."""

    def __init__(self) -> None:
        self._lines = deque[RawLine]()
        self._left_out = 0
        self.news = asyncio.Event()

    def add(self, line: RawLine) -> None:
        """Add a line."""
        if len(self._lines) >= MOST_WAITING:
            self._lines.popleft()
            self._left_out += 1
        self._lines.append(line)
        self.news.set()

    def take(self) -> tuple[int, list[RawLine]]:
        """Return how many lines were left out before these, and the next lines."""
        left_out, self._left_out = self._left_out, 0
        taken = [self._lines.popleft() for _ in range(min(MOST_AT_ONCE, len(self._lines)))]
        if not self._lines:
            self.news.clear()
        return left_out, taken


class LogFollower:
    """Follows the logs of the pods of a job, also of new ones and after restarts, until it is cancelled.

    `pods` returns those that there are now, `known` is from `LastLines`: what was read of them before. `left` is how
    many pods are not followed, as there are too many, and `problems` why some cannot be read.
    """

    def __init__(
        self, logs: ReplicaLogs, pods: Callable[[], Sequence[LogPod]], filters: LogFilters, known: Mapping[str, str]
    ) -> None:
        self._logs, self._pods, self._filters, self._known = logs, pods, filters, dict(known)
        self._is_wanted, _ = matcher(filters)
        self._tasks = dict[str, asyncio.Task[None]]()
        #: Pods whose containers have ended, and whose logs were read since.
        self._over = {pod.uid for pod in pods() if pod.uid in known and not pod.runs}
        self.waiting = WaitingLines()
        self.left = 0
        self.problems = dict[str, str]()

    async def run(self) -> None:
        """Follow."""
        async with asyncio.TaskGroup() as group:
            while True:
                pods, _ = chosen(self._pods(), self._filters, outlive=self._logs.outlive)
                self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}
                new = [pod for pod in pods if pod.uid not in self._tasks and (pod.runs or pod.uid not in self._over)]
                room = MOST_FOLLOWED - len(self._tasks)
                for pod in new[:room]:
                    self._tasks[pod.uid] = group.create_task(self._follow(pod))
                self.left = len(new[room:])
                await asyncio.sleep(POLL_SECONDS)

    async def _follow(self, pod: LogPod) -> None:
        """Read a log until it ends; the loop above reads on when the container runs again."""
        log = self._logs.open(pod, LogQuery(self._filters.lines, follow=True), self._known.get(pod.uid, ""))
        seconds, is_whole = PROVEN if pod.replica in self.problems else LASTS, False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(log.lines()) as lines:
                async for time, content in lines:
                    self.problems.pop(pod.replica, None)
                    text = shown(content)
                    if self._is_wanted is None or self._is_wanted(text):
                        self.waiting.add(RawLine(time, pod.replica, text))
                    self._known[pod.uid] = log.last
                is_whole = not log.problem
        if log.problem:
            self.problems[pod.replica] = log.problem
            await asyncio.sleep(AGAIN)
            return
        self.problems.pop(pod.replica, None)
        if is_whole:
            if not pod.runs:
                self._over.add(pod.uid)
            await asyncio.sleep(POLL_SECONDS)

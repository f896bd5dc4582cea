"""What a page of logs is sent while it is open: the last lines, then those that are written, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from trainshed.plan.messages.phrases import plural

from .log_filters import LogFilters, matcher
from .log_reading import MOST_AT_ONCE, MOST_FOLLOWED, POLL_SECONDS, LogFollower, chosen, last_lines
from .pages import log_page, log_rows
from .pages.log_page import LogView
from .replica_logs import LogPod, RawLine, ReplicaLogs

#: Seconds between two messages, and after which one is sent in any case: so a connection that is gone is noticed.
INTERVAL, LONGEST = 0.25, 15.0
#: The most sentences about logs that could not be read.
MOST_SAID = 8


class LogMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a page is sent: rows to add, after it has removed all others if `reset`, and what is said about them.

    `parts` are elements around the lines by their ids. `ready` is whether the last lines have come, so that those that
    follow are new.
    """

    html: str = ""
    state: str = ""
    parts: Mapping[str, str] = {}
    reset: bool = False
    ready: bool = False


async def view(path: str, logs: ReplicaLogs, pods: Sequence[LogPod], filters: LogFilters) -> LogView:
    """Return what the page shows when it is opened, and without a script."""
    found, _ = await _view(path, logs, pods, filters)
    return found


async def _view(
    path: str, logs: ReplicaLogs, pods: Sequence[LogPod], filters: LogFilters
) -> tuple[LogView, dict[str, str]]:
    read, said = chosen(pods, filters, outlive=logs.outlive)
    _, wrong = matcher(filters)
    last = await last_lines(logs, read, filters)
    replicas = tuple(dict.fromkeys(pod.replica for pod in pods))
    return LogView(path, replicas, filters, last.lines, (*said, *last.problems[:MOST_SAID]), wrong), last.known


class LogJob(Protocol):
    """The job of a page of logs."""

    def pods(self) -> Sequence[LogPod]:
        """Return its pods as they are now."""

    def around(self) -> Mapping[str, str] | None:
        """Return the elements around the lines by their ids; None if nothing of the job may be shown any more."""


class LogPage:
    """The messages for one page."""

    def __init__(self, path: str, logs: ReplicaLogs, job: LogJob, filters: LogFilters) -> None:
        self._path, self._logs, self._job, self._filters = path, logs, job, filters
        self._seen = 0

    async def messages(self) -> AsyncGenerator[LogMessage, None]:
        """Yield the messages, at most 4 a second, until the job may not be shown any more."""
        first, known = await _view(self._path, self._logs, self._job.pods(), self._filters)
        lines, shown = first.lines, first.shown
        yield LogMessage(reset=True, state=self._state(first))
        for start in range(0, len(lines), MOST_AT_ONCE):
            yield LogMessage(html=log_rows.html(lines[start : start + MOST_AT_ONCE], shown))
        self._seen = len(lines)
        yield LogMessage(ready=True)
        pods = list if self._filters.previous else self._job.pods  # that run is over
        follower = LogFollower(self._logs, pods, self._filters, known)
        following = asyncio.create_task(follower.run())
        try:
            async for message in self._news(follower, first):
                yield message
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _news(self, follower: LogFollower, view: LogView) -> AsyncGenerator[LogMessage, None]:
        loop = asyncio.get_running_loop()
        said, parts, spoke = "", dict[str, str](), loop.time()
        while (around := self._job.around()) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(follower.waiting.news.wait(), POLL_SECONDS)
            left_out, lines = follower.waiting.take()
            self._seen += left_out + len(lines)
            view = self._now(view, follower, lines)
            state = self._state(view)
            html = log_rows.left_out(left_out) + log_rows.html(lines, view.shown)
            changed = {name: part for name, part in around.items() if parts.get(name) != part}
            if html or changed or state != said or loop.time() - spoke >= LONGEST:
                yield LogMessage(html=html, state="" if state == said else state, parts=changed)
                said, parts, spoke = state, {**around}, loop.time()
            await asyncio.sleep(INTERVAL)

    def _now(self, view: LogView, follower: LogFollower, lines: Iterable[RawLine]) -> LogView:
        """Return the view with the sentences that are true now."""
        pods = self._job.pods()
        _, said = chosen(pods, self._filters, outlive=self._logs.outlive)
        if follower.left:
            said.append(
                f"{plural(follower.left, 'replica')} {'is' if follower.left == 1 else 'are'} not followed: a page "
                f"follows {MOST_FOLLOWED} at most. Choose replicas to follow others."
            )
        said += [f"{replica}: {problem}" for replica, problem in list(follower.problems.items())[:MOST_SAID]]
        replicas = tuple(dict.fromkeys((*view.replicas, *(pod.replica for pod in pods))))
        return msgspec.structs.replace(view, said=tuple(said), replicas=replicas, lines=tuple(lines))

    def _state(self, view: LogView) -> str:
        return str(log_page.state(view.said, view.wrong, log_page.counted(view, max(self._seen, len(view.lines)))))

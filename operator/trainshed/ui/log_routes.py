"""The addresses of logs: the page, and the stream of what is new on it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import msgspec
from aiohttp import web

from . import log_filters
from .base_path import own_path
from .cluster_logs import log_pods
from .feed import Feed
from .live import RETRY, TICK
from .log_live import LogMessage, LogPage, view
from .model import Address, JobFile, PageFrame
from .pages import layout, log_page
from .replica_logs import LogPod, ReplicaLogs

#: The most pages of logs that are followed at a time: each has a connection for each replica.
MOST_PAGES = 8
TOO_MANY = "Too many pages of logs are open: close some, and this one goes on by itself."

#: Writes messages; HTML is a text of a type of its own.
MESSAGES = msgspec.json.Encoder(enc_hook=str)


class LogRoutes:
    """Pages of logs over a feed; `frame` returns what surrounds a page that is drawn now."""

    def __init__(self, feed: Feed, logs: ReplicaLogs, frame: Callable[[], PageFrame]) -> None:
        self._feed, self._logs, self._frame = feed, logs, frame
        self._open = 0

    async def page(self, file: JobFile, request: web.Request) -> web.Response:
        """Answer with the page, which has the last lines."""
        filters = _filters(request)
        found = await view(own_path(request), self._logs, log_pods(file, filters.container), filters)
        text = str(log_page.page(file, found, self._frame()))
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def live(self, address: Address, request: web.Request) -> web.StreamResponse:
        """Send the last lines, and then those that are written."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        await response.write(RETRY)
        if self._open >= MOST_PAGES:
            state = str(log_page.state((TOO_MANY,), "", ""))
            await response.write(_event(LogMessage(state=state, ready=True)))
            return response
        self._open += 1
        try:
            path, filters = own_path(request).removesuffix("/live"), _filters(request)
            page = LogPage(path, self._logs, _Job(self._feed, address, filters.container), filters)
            async with aclosing(page.messages()) as messages:
                async for message in messages:
                    await response.write(_event(message))
        finally:
            self._open -= 1
        return response


class _Job:
    """Implements `LogJob`: a job as the feed knows it, which is decoded again when something has changed."""

    def __init__(self, feed: Feed, address: Address, container: str) -> None:
        self._feed, self._address, self._container = feed, address, container
        self._revision, self._pods = -1, list[LogPod]()
        self._file: JobFile | None = None
        self._drawn: tuple[object, dict[str, str]] = None, {}

    def pods(self) -> list[LogPod]:
        """Return its pods."""
        self._read()
        return self._pods

    def around(self) -> dict[str, str] | None:
        """Return what is said above the lines; that a job is gone again after a while, as it says for how long."""
        if self._feed.is_over:
            return None
        file = self._read()
        now, notices = self._feed.now(), self._feed.notices()
        since = int((now - file.deleted).total_seconds() / TICK) if file and file.deleted else None
        if self._drawn[0] != (notices, since):
            parts = {"notices": str(layout.notices(notices))}
            if file:
                parts["log-banner"] = str(log_page.banner(file, now))
            self._drawn = (notices, since), parts
        return self._drawn[1]

    def _read(self) -> JobFile | None:
        revision = self._feed.revision_of(self._address)
        if revision != self._revision:
            self._revision, self._file = revision, self._feed.file(self._address)
            self._pods = log_pods(self._file, self._container) if self._file else []
        return self._file


def _filters(request: web.Request) -> log_filters.LogFilters:
    return log_filters.read(request.query, request.query.getall("replica", []))


def _event(message: LogMessage) -> bytes:
    return b"event: log\ndata: %s\n\n" % MESSAGES.encode(message)

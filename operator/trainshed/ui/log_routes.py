"""The addresses of logs: the page, and the stream of what is new on it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from . import log_filters
from .base_path import own_path
from .cluster_logs import log_pods
from .feed import Feed
from .live import RETRY
from .log_live import LogMessage, LogPage, view
from .model import Address, JobFile, PageFrame
from .pages import log_page
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
        text = f"<!doctype html>{log_page.page(file, found, self._frame())}"
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
            path, pods = (
                own_path(request).removesuffix("/live"),
                _Pods(self._feed, address, _filters(request).container),
            )
            async for message in LogPage(path, self._logs, pods.now, _filters(request)).messages():
                await response.write(_event(message))
        finally:
            self._open -= 1
        return response


class _Pods:
    """The pods of a job as the feed knows them, which are decoded again when something has changed."""

    def __init__(self, feed: Feed, address: Address, container: str) -> None:
        self._feed, self._address, self._container = feed, address, container
        self._revision, self._known = -1, list[LogPod]()

    def now(self) -> list[LogPod]:
        revision = self._feed.revision_of(self._address)
        if revision != self._revision:
            file = self._feed.file(self._address)
            self._revision, self._known = revision, log_pods(file, self._container) if file else []
        return self._known


def _filters(request: web.Request) -> log_filters.LogFilters:
    return log_filters.read(request.query, request.query.getall("replica", []))


def _event(message: LogMessage) -> bytes:
    return b"event: log\ndata: %s\n\n" % MESSAGES.encode(message)

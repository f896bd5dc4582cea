"""A watch as it arrives: what the server tells is on its way for a while, and comes in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from trainshed.client.transport import READ_TIMEOUT, TransportError

from .faults import LATENCY, Ending, Weather
from .loop import VirtualLoop
from .moments import Handle
from .server import Server
from .watches import Watch

#: Seconds between the bookmarks of a watch.
BOOKMARK = 60.0


class Way(Protocol):
    """What lies between the server and the process `name`."""

    name: str
    loop: VirtualLoop
    server: Server
    weather: Weather

    def later(self, seconds: float, call: Callable[..., None], *words: object) -> Handle:
        """Do it in so many seconds, whatever becomes of the process."""
        ...


class Feed:
    """One watch of a process."""

    def __init__(self, way: Way, path: str, query: Mapping[str, str]) -> None:
        self.path = path
        self.query = query
        self.held = False
        self._way = way
        self._loop = way.loop
        self._pieces: list[bytes] = []
        self._waiting: asyncio.Future[None] | None = None
        self._ending: Ending | None = None
        self._due = 0.0
        self._heard = way.loop.time()
        self._timers: list[Handle] = []
        self._watch: Watch | None = None
        self._kept: list[bytes] = []

    def open(self) -> None:
        """Begin to listen; raises `Refusal`."""
        self._watch = self._way.server.watch(self.path, self.query, self._send)
        if self._watch.over:
            self.end(Ending())
        seconds = float(self.query.get("timeoutSeconds", "1800"))
        self._timers.append(self._way.later(seconds, self.end, Ending()))
        if self.query.get("allowWatchBookmarks") == "true":
            self._timers.append(self._way.later(BOOKMARK, self._bookmark))

    def close(self) -> None:
        """Listen no more."""
        if self._watch is not None:
            self._way.server.watches.close(self._watch)
        for timer in self._timers:
            timer.cancel()

    def end(self, ending: Ending) -> None:
        """Let the stream end like this, once what is on its way has arrived."""
        if self._watch is not None:
            self._way.server.watches.close(self._watch)
        self._arrive_later(LATENCY, ending.last, ending)

    def hold(self) -> None:
        """Keep back what the server tells from now on."""
        self.held = True

    def release(self) -> None:
        """Let go of what was kept back."""
        self.held = False
        kept, self._kept = self._kept, []
        for line in kept:
            self._send(line)

    async def pieces(self) -> AsyncIterator[bytes]:
        """What arrives, until the stream ends; raises `Broken`, also after a long silence."""
        while True:
            if self._pieces:
                arrived, self._pieces = b"".join(self._pieces), []
                yield arrived
            elif self._ending is not None and not self._ending.silent:
                if self._ending.broken:
                    raise TransportError("ClientPayloadError: the connection was broken off")
                return
            else:
                await self._something()

    async def _something(self) -> None:
        self._waiting = self._loop.create_future()
        silence = self._loop.call_at(self._heard + READ_TIMEOUT, self._give_up)
        try:
            await self._waiting
        finally:
            self._waiting = None
            silence.cancel()

    def _give_up(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(TransportError("SocketTimeoutError: Timeout on reading data from socket"))

    def _send(self, line: bytes) -> None:
        if self.held:
            self._kept.append(line)
            return
        passage = self._way.weather.line(self._way.name, self.path, line)
        self._arrive_later(passage.delay, line * passage.times, passage.end)

    def _arrive_later(self, delay: float, content: bytes, ending: Ending | None) -> None:
        if not content and ending is None:
            return
        now = self._loop.time()
        self._due = max(self._due, now + delay)
        self._way.later(self._due - now, self._arrive, content, ending)

    def _arrive(self, content: bytes, ending: Ending | None) -> None:
        if self._ending is not None:
            return
        if content:
            self._pieces.append(content)
        self._ending = ending
        if ending is not None and ending.last and ending.last != content:
            self._pieces.append(ending.last)
        self._heard = self._loop.time()
        if self._waiting is not None and not self._waiting.done() and not (ending and ending.silent and not content):
            self._waiting.set_result(None)

    def _bookmark(self) -> None:
        if self._watch is not None:
            self._watch.bookmark(self._way.server.storage.version)
        self._timers[-1] = self._way.later(BOOKMARK, self._bookmark)

"""The network between an operator and the simulated server: a transport of the client, with faults.

A `Network` decides the outcome of each request and of each line of a watch: its latency, and whether it is lost or
answered with an error. `ReliableNetwork` injects no fault.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from support.replace import replace
from support.virtual_time import ScheduledCall, VirtualTimeLoop
from trainshed.client.http import READ_TIMEOUT, REQUEST_TIMEOUT
from trainshed.client.transport import Answer, Request, Stream, TransportError
from trainshed.memory.errors import StatusError
from trainshed.memory.server import Server
from trainshed.memory.watch import Watch

#: Seconds that a request, a response, or a line takes without a fault.
LATENCY = 0.002
#: Seconds between the bookmarks of a watch.
BOOKMARK = 60.0
#: Seconds for which the kernel goes on sending what the client has left in a connection that it closed.
ORPHANED = 50.0


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of a request.

    It reaches the server after `before` seconds, the response the client after another `after`; None is never. The
    response `instead` is sent without executing the request, `lost` after executing it, in place of the server's own;
    status 0 is a connection reset. The body is `cut` after this number of bytes. A list is as of version `behind`.
    """

    before: float | None = 0.0
    after: float | None = LATENCY
    instead: Answer | None = None
    lost: Answer | None = None
    cut: int | None = None
    behind: int | None = None


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a stream: its `last` bytes, then a close, a `broken` connection, or a `silent` one without data."""

    last: bytes = b""
    broken: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """The outcome of a line of a watch: it arrives after `delay` seconds, `times` times; then the stream may `end`.

    With `times=0` it is lost. A later line never overtakes it.
    """

    delay: float = LATENCY
    times: int = 1
    end: StreamEnd | None = None


DELIVERED, ON_TIME = RequestOutcome(), EventOutcome()
RESET = Answer(0)


class Network(Protocol):
    """Decides about each request and each line of a watch; `process` is the name of the operator's process."""

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        """Return the outcome of a request, or of the start of a watch."""
        ...

    def line(self, process: str, path: str, line: bytes) -> EventOutcome:
        """Return the outcome of a line of a watch."""
        ...


class ReliableNetwork:
    """Delivers everything."""

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        """Deliver it."""
        del process, request
        return DELIVERED

    def line(self, process: str, path: str, line: bytes) -> EventOutcome:
        """Deliver it."""
        del process, path, line
        return ON_TIME


def error_response(code: int, reason: str, message: str = "an injected error", retry_after: str = "") -> Answer:
    """Return an error response, as the server would send it."""
    return Answer(code, StatusError(code, reason, message).content, retry_after)


def error_event(code: int, reason: str, message: str = "an injected error") -> bytes:
    """Return an ERROR line of a watch."""
    return b'{"type":"ERROR","object":' + StatusError(code, reason, message).content + b"}\n"


class SimulatedTransport:
    """The connection of the process `name` to the server, which knows it as `actor`.

    After `disconnect` nothing passes.
    """

    def __init__(self, loop: VirtualTimeLoop, server: Server, network: Network, name: str, actor: str) -> None:
        self.loop = loop
        self.name = name
        self.requests: dict[RequestInFlight, None] = {}
        self.streams: dict[WatchStream, None] = {}
        self.network = network
        self.server = server
        self._disconnected = False
        self._actor = actor
        self._context = contextvars.copy_context()

    async def exchange(self, request: Request) -> Answer:
        """Send one request; raises `TransportError`."""
        if self._disconnected:
            await self.loop.create_future()
        outcome = self.network.exchange(self.name, request)
        sent = RequestInFlight(self, request, outcome)
        if outcome.before == 0:
            sent.arrive()
        else:
            self.requests[sent] = None
            if outcome.before is not None:
                sent.timer = self.later(outcome.before, sent.arrive)
        if outcome.before is None or outcome.after is None or outcome.before + outcome.after > REQUEST_TIMEOUT:
            self.later(REQUEST_TIMEOUT, sent.time_out)
        return await sent.response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a watch; raises `TransportError`, also between pieces."""
        if self._disconnected:
            await self.loop.create_future()
        outcome = self.network.exchange(self.name, request)
        for seconds in (outcome.before, outcome.after):
            await asyncio.sleep(REQUEST_TIMEOUT if seconds is None else seconds)
        if outcome.before is None or outcome.after is None:
            raise TransportError("TimeoutError: ")
        error = outcome.instead or outcome.lost
        if error is not None and error.status == 0:
            raise TransportError("ClientOSError: Connection reset by peer")
        if error is not None:
            yield error, _nothing()
            return
        stream = WatchStream(self, request.path, request.query)
        try:
            stream.open()
        except StatusError as refused:
            yield Answer(refused.code, refused.content), _nothing()
            return
        self.streams[stream] = None
        try:
            yield Answer(200), stream.pieces()
        finally:
            self.streams.pop(stream, None)
            stream.close()

    async def close(self) -> None:
        """Close nothing: there are no sockets."""

    def handle(self, request: Request, behind: int | None) -> Answer:
        """Return the server's response."""
        return self.server.handle(self._actor, request, behind)

    def later(self, seconds: float, call: Callable[..., None], *args: object) -> ScheduledCall:
        """Call this after some seconds, also if the process has ended: the network does it."""
        return self.loop.call_later(seconds, call, *args, context=self._context)

    def disconnect(self, arrives: Callable[[Request], bool]) -> None:
        """End all requests and watches of a process that is gone; the requests for which `arrives` is true arrive."""
        self._disconnected = True
        for sent in tuple(self.requests):
            if sent.timer is not None:
                sent.timer.cancel()
            if arrives(sent.request):
                sent.arrive()
        self.requests.clear()
        for stream in tuple(self.streams):
            stream.close()
        self.streams.clear()


class RequestInFlight:
    """A request that was sent and has no response yet."""

    def __init__(self, transport: SimulatedTransport, request: Request, outcome: RequestOutcome) -> None:
        self.request = request
        self.timer: ScheduledCall | None = None
        self.response: asyncio.Future[Answer] = transport.loop.create_future()
        self._outcome = outcome
        self._transport = transport

    def arrive(self) -> None:
        """Let the server handle it, and send the response."""
        transport, outcome = self._transport, self._outcome
        transport.requests.pop(self, None)
        response = outcome.instead or transport.handle(self.request, outcome.behind)
        response = outcome.lost or response
        if outcome.cut is not None:
            response = replace(response, content=response.content[: outcome.cut])
        if outcome.after is not None:
            transport.later(outcome.after, self._respond, response)

    def time_out(self) -> None:
        """Let the client's timeout expire; the request may still arrive for ORPHANED seconds."""
        if not self.response.done():
            self.response.set_exception(TransportError("TimeoutError: "))
        self._transport.later(ORPHANED, self._transport.requests.pop, self, None)

    def _respond(self, response: Answer) -> None:
        if self.response.done():
            return
        if response.status == 0:
            self.response.set_exception(TransportError("ClientOSError: Connection reset by peer"))
        else:
            self.response.set_result(response)


class WatchStream:
    """One watch of a process: its lines take time and arrive in order."""

    def __init__(self, transport: SimulatedTransport, path: str, query: Mapping[str, str]) -> None:
        self.path = path
        self.query = query
        self.paused = False
        self._transport = transport
        self._loop = transport.loop
        self._pieces: list[bytes] = []
        self._waiting: asyncio.Future[None] | None = None
        self._end: StreamEnd | None = None
        self._due = 0.0
        self._last_data = transport.loop.time()
        self._timers: list[ScheduledCall] = []
        self._watch: Watch | None = None
        self._held_back: list[bytes] = []

    def open(self) -> None:
        """Open the watch on the server; raises `StatusError`."""
        self._watch = self._transport.server.watch(self.path, self.query, self._send)
        if self._watch.closed:
            self.end(StreamEnd())
        seconds = float(self.query.get("timeoutSeconds", "1800"))
        self._timers.append(self._transport.later(seconds, self.end, StreamEnd()))
        if self.query.get("allowWatchBookmarks") == "true":
            self._timers.append(self._transport.later(BOOKMARK, self._bookmark))

    def close(self) -> None:
        """Close the watch on the server."""
        if self._watch is not None:
            self._transport.server.watches.close(self._watch)
        for timer in self._timers:
            timer.cancel()

    def end(self, end: StreamEnd) -> None:
        """End the stream like this, after the lines that were sent have arrived."""
        if self._watch is not None:
            self._transport.server.watches.close(self._watch)
        self._arrive_later(LATENCY, end.last, end)

    def pause(self) -> None:
        """Hold back all further lines."""
        self.paused = True

    def resume(self) -> None:
        """Send the lines that were held back."""
        self.paused = False
        lines, self._held_back = self._held_back, []
        for line in lines:
            self._send(line)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the data that arrives until the stream ends; raises `TransportError`, also after the read timeout."""
        while True:
            if self._pieces:
                arrived, self._pieces = b"".join(self._pieces), []
                yield arrived
            elif self._end is not None and not self._end.silent:
                if self._end.broken:
                    raise TransportError("ClientPayloadError: the connection was broken off")
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        self._waiting = self._loop.create_future()
        timer = self._loop.call_at(self._last_data + READ_TIMEOUT, self._time_out)
        try:
            await self._waiting
        finally:
            self._waiting = None
            timer.cancel()

    def _time_out(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(TransportError("SocketTimeoutError: Timeout on reading data from socket"))

    def _send(self, line: bytes) -> None:
        if self.paused:
            self._held_back.append(line)
            return
        outcome = self._transport.network.line(self._transport.name, self.path, line)
        self._arrive_later(outcome.delay, line * outcome.times, outcome.end)

    def _arrive_later(self, delay: float, content: bytes, end: StreamEnd | None) -> None:
        if not content and end is None:
            return
        now = self._loop.time()
        self._due = max(self._due, now + delay)
        self._transport.later(self._due - now, self._arrive, content, end)

    def _arrive(self, content: bytes, end: StreamEnd | None) -> None:
        if self._end is not None:
            return
        if content:
            self._pieces.append(content)
        self._end = end
        if end is not None and end.last and end.last != content:
            self._pieces.append(end.last)
        self._last_data = self._loop.time()
        if self._waiting is not None and not self._waiting.done() and not (end and end.silent and not content):
            self._waiting.set_result(None)

    def _bookmark(self) -> None:
        if self._watch is not None:
            self._watch.bookmark(self._transport.server.store.version)
        self._timers[-1] = self._transport.later(BOOKMARK, self._bookmark)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield

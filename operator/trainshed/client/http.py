"""HTTP/1.1 over a pool of connections to one server.

With a general HTTP client a request takes three times the processor time, and so do many pods. This one knows one
server, sends each request in one write, and neither follows redirects nor decompresses.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import quote, urlencode, urlsplit

from httptools import HttpParserError, HttpResponseParser

from .coalescing import Coalescing
from .credentials import Credentials, Headers, TokenSource
from .proxies import PORTS
from .transport import Answer, Request, ResponseTooLarge, Stream, TransportError, WriteNotPermitted, is_unauthenticated
from .tunnel import open_tunnel

#: Timeouts in seconds: a response, a connection, and a stream without data (bookmarks arrive about once a minute).
REQUEST_TIMEOUT, CONNECT_TIMEOUT, READ_TIMEOUT = 30.0, 5.0, 90.0
#: Seconds for which an idle connection is kept. The API server closes it after 90, a proxy before it perhaps earlier.
KEEP_ALIVE = 15.0
#: Seconds between two checks for timeouts: a timer for each request would cost a tenth of it.
CHECK_INTERVAL = 1.0
#: Bytes of a stream that may wait for their reader; then the server has to wait.
MAX_BUFFERED = 1024 * 1024
#: The response headers that are read, besides those that the parser reads itself; only errors and redirects have them.
RETRY_AFTER, LOCATION = b"retry-after", b"location"


class ConnectionLost(OSError):
    """The connection ended before the response did."""


class BodyTooLarge(OSError):
    """The body is longer than it may be; the rest of it is not read."""


class Connection(asyncio.Protocol):
    """A connection, which carries one request at a time. Methods `on_...` are called by the parser.

    There is no `on_header`: calls of it for each header would take half of the time of parsing.
    """

    def __init__(self, coalescing: Coalescing) -> None:
        self.status = 0
        self.used = False
        self.idle_since = 0.0
        self._coalescing = coalescing
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._head = b""
        self._pieces: deque[bytes] = deque()
        self._buffered = self._most = 0
        self._streams = self._paused = False
        self._complete = self._keep_alive = True
        self._seconds, self._deadline = 0.0, math.inf
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether the connection is not known to be lost."""
        return self._error is None

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the last one has its whole response."""
        return self._error is None and self._complete and self._keep_alive and not self._paused

    @property
    def session(self) -> ssl.SSLSession | None:
        """The TLS session, which another connection can resume; None without one."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport else None
        session: ssl.SSLSession | None = tls.session if tls else None
        return session if session and session.has_ticket else None

    def send(self, content: bytes, most: int, *, streams: bool) -> None:
        """Send a whole request. If the response `streams`, its pieces are read as they arrive.

        Otherwise its body may have `most` bytes.
        """
        self._most = most
        self.status, self._head = 0, b""
        self._pieces.clear()
        self._buffered = 0
        self._complete, self._streams, self.used = False, streams, True
        if self._transport is not None and self._error is None:
            self._transport.write(content)

    def header(self, name: bytes) -> str:
        """Return a header of an error or a redirect by its name in lower case, empty if it is missing."""
        found: dict[bytes, bytes] = {}
        HttpResponseParser(_HeaderCollector(found)).feed_data(self._head)
        return found.get(name, b"").decode(errors="replace")

    async def answered(self, seconds: float) -> None:
        """Wait for the response, or for its headers if it streams and is no error.

        Raises `ConnectionLost`, `BodyTooLarge`, and TimeoutError after these seconds.
        """
        self._seconds, self._deadline = seconds, self._loop.time() + seconds
        while not (self._complete or (self._streams and 0 < self.status < HTTPStatus.BAD_REQUEST)):
            await self._wait()

    def body(self) -> bytes:
        """Return what has arrived of the body since the last call."""
        found = b"".join(self._pieces)
        self._pieces.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return found

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises `ConnectionLost`, and TimeoutError after READ_TIMEOUT without data."""
        while self._pieces or not self._complete:
            if self._pieces:
                yield self.body()
            else:
                self._seconds, self._deadline = READ_TIMEOUT, self._loop.time() + READ_TIMEOUT
                await self._wait()

    def check_deadline(self, now: float) -> None:
        """Let the reader fail if it has waited too long."""
        if now >= self._deadline and self._waiter is not None and not self._waiter.done():
            self._fail(TimeoutError(f"no response within {self._seconds:g} s"))

    def abort(self) -> None:
        """Close the connection at once: the closing handshake of TLS would wait for the server."""
        self._fail(ConnectionLost("closed by the client"))
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment] # a connection can be written to

    def data_received(self, data: bytes) -> None:
        """Parse a part of the response."""
        self._coalescing.arrived()
        if not self.status:
            self._head += data
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(ConnectionLost(f"invalid response: {error}"))
            self.abort()
        if self._buffered > self._most and not self._streams:
            self._complete = False
            self._fail(BodyTooLarge(f"the response has more than {self._most:,} bytes"))
            self.abort()
        if self._complete or self._streams:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the reader fail."""
        self._fail(ConnectionLost(f"{type(exc).__name__}: {exc}" if exc else "closed by the server"))

    def on_message_begin(self) -> None:
        """Refuse a second response to one request."""
        if self._complete:
            raise HttpParserError("more than one response")

    def on_headers_complete(self) -> None:
        """Keep the status; a provisional response (1xx) is followed by the proper one."""
        status: int = self._parser.get_status_code()
        self.status = status if status >= HTTPStatus.OK else 0
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self._head = b""  # its headers are not needed, and what arrived with them may be large

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        self._pieces.append(piece)
        self._buffered += len(piece)
        if self._streams and self._buffered > MAX_BUFFERED and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note the end of the response."""
        self._complete = self.status > 0
        self._keep_alive = self._parser.should_keep_alive()

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        await self._waiter

    def _fail(self, error: OSError) -> None:
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _HeaderCollector:
    """Collects the headers that a parser finds, by their names in lower case."""

    def __init__(self, found: dict[bytes, bytes]) -> None:
        self._found = found

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._found[name.lower()] = value


class HttpTransport:
    """The connection pool to an API server."""

    def __init__(self, credentials: Credentials) -> None:
        server = urlsplit(credentials.server)
        self._address = server.hostname or "", server.port or PORTS.get(server.scheme, PORTS["https"])
        self._prefix = server.path.rstrip("/")
        self._tls, self._proxy = credentials.tls(), credentials.proxy
        self._head = (
            f"Host: {server.netloc.rpartition('@')[2]}\r\nUser-Agent: trainshed\r\nAccept: application/json\r\n"
        )
        self._token_source = TokenSource(credentials)
        self._token_headers: tuple[Headers | None, str] = None, ""
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._coalescing = Coalescing()

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        if self._timer:
            self._timer.cancel()
        await asyncio.sleep(0)  # the event loop closes the sockets in its next iteration

    async def exchange(self, request: Request) -> Answer:
        """Send one request, and once more if credentials were rejected that can be read again: nothing was done then.

        Raises `TransportError` and `WriteNotPermitted`.
        """
        answer = await self._exchange(request)
        if is_unauthenticated(answer) and self._token_source.renew():
            for connection in self._idle:  # they have shown the certificate that was rejected
                connection.abort()
            answer = await self._exchange(request)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Send one request, yield its response and pieces as they arrive; raises `TransportError` at any time."""
        try:
            connection = await self._send(request, READ_TIMEOUT, streams=True)
            try:
                content = connection.body() if connection.status >= HTTPStatus.BAD_REQUEST else b""
                yield _answer(connection, content), connection.pieces()
            finally:
                self._release(connection)
        except (TimeoutError, OSError) as error:
            raise TransportError(f"{type(error).__name__}: {error}") from error

    async def _exchange(self, request: Request) -> Answer:
        began = time.monotonic()
        try:
            connection = await self._send(request, REQUEST_TIMEOUT, streams=False)
        except BodyTooLarge as error:
            raise ResponseTooLarge(str(error)) from error
        except (TimeoutError, OSError) as error:
            raise TransportError(f"{type(error).__name__}: {error}") from error
        self._coalescing.responded(time.monotonic() - began)
        content = connection.body()
        self._release(connection)
        return _answer(connection, content)

    async def _send(self, request: Request, seconds: float, *, streams: bool) -> Connection:
        """Send a request and wait for its response; the caller has to release the connection.

        A GET is repeated if the server has closed an idle connection meanwhile.
        """
        content = self._content(request)
        while True:
            connection = self._reuse()
            if connection is None:
                _require_permission(request)
                connection = await self._connect()
            self._busy.add(connection)
            if self._timer is None:
                self._check_deadlines()
            used, answered = connection.used, False
            try:
                if request.body is not None:
                    _require_permission(request)
                connection.send(content, request.most, streams=streams)
                await connection.answered(seconds)
                answered = True
            except ConnectionLost:
                if not used or request.verb != "GET" or connection.status:
                    raise
            finally:
                if not answered:
                    self._release(connection)
            if answered:
                if not used and self._tls:
                    self._tls.session = connection.session or self._tls.session
                return connection

    def _content(self, request: Request) -> bytes:
        known, token = self._token_headers
        if (headers := self._token_source.headers()) is not known:
            token = "".join(f"{name}: {value}\r\n" for name, value in headers)
            self._token_headers = headers, token
        body = request.body or b""
        size = "" if request.body is None else f"Content-Type: {request.kind}\r\nContent-Length: {len(body)}\r\n"
        target = f"{self._prefix}{_quoted(request.path)}{_query(tuple(request.query.items()))}"
        return f"{request.verb} {target} HTTP/1.1\r\n{self._head}{token}{size}\r\n".encode() + body

    def _check_deadlines(self) -> None:
        """Check the requests in flight now and, while there are any, each CHECK_INTERVAL seconds."""
        loop = asyncio.get_running_loop()
        for connection in tuple(self._busy):
            connection.check_deadline(loop.time())
        self._timer = loop.call_later(CHECK_INTERVAL, self._check_deadlines) if self._busy else None

    async def _connect(self) -> Connection:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            loop = asyncio.get_running_loop()
            if not self._proxy:
                return (await loop.create_connection(self._connection, *self._address, ssl=self._tls))[1]
            tunnel = await open_tunnel(self._proxy, *self._address)
            name = self._address[0] if self._tls else None
            _, connection = await loop.create_connection(
                self._connection, sock=tunnel, ssl=self._tls, server_hostname=name
            )
        return connection

    def _connection(self) -> Connection:
        return Connection(self._coalescing)

    def _reuse(self) -> Connection | None:
        """Return the idle connection that was used last, if there is one, and close those that are idle for long."""
        now = asyncio.get_running_loop().time()
        while self._idle and self._idle[0].idle_since < now - KEEP_ALIVE:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    def _release(self, connection: Connection) -> None:
        self._busy.discard(connection)
        if connection.is_reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()


@lru_cache(maxsize=256)
def _quoted(path: str) -> str:
    """Return the path of a URL; the objects of a namespace are created at the same."""
    return quote(path, safe="/:")


@lru_cache(maxsize=64)
def _query(parameters: tuple[tuple[str, str], ...]) -> str:
    """Return the query of a URL; all writes have the same."""
    return f"?{urlencode(parameters)}" if parameters else ""


def _require_permission(request: Request) -> None:
    if not request.permit():
        raise WriteNotPermitted("sending is no longer permitted")


def _answer(connection: Connection, content: bytes) -> Answer:
    """Return the answer.

    Raises `TransportError` for a redirect: it may lead to plain http, or to a server that must not see the token.
    """
    status = connection.status
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return Answer(status, content)
    if status < HTTPStatus.BAD_REQUEST:
        where = connection.header(LOCATION).partition("?")[0][:200]
        raise TransportError(f"the server answers with a redirect ({status}) to {where}, which is not followed")
    return Answer(status, content, connection.header(RETRY_AFTER))

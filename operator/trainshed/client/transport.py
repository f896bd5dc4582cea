"""HTTP requests to the API server: connections, time-outs, paths, watches, and the errors of answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter

from trainshed.client import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeader,
    TooManyRequests,
    Unavailable,
)

from .credentials import Credentials, TokenSource
from .redaction import redact

#: Timeouts in seconds: a whole request, a connection, and a stream without data (bookmarks arrive about once a minute).
REQUEST_TIMEOUT, CONNECT_TIMEOUT, READ_TIMEOUT = 30.0, 5.0, 90.0
#: Seconds for the TLS closing handshake of cancelled connections.
TLS_CLOSE = 0.25


class TransportError(Exception):
    """There was no complete response: the request may or may not have been carried out."""


class WriteNotPermitted(Exception):
    """The request may no longer be sent; nothing was sent."""


def always_permitted() -> bool:
    """Return True."""
    return True


@dataclass(frozen=True, slots=True)
class Request:
    """A request: `path` begins with a slash, `kind` is the content type of the body.

    A body is sent only if `permit` returns True. It is called at the moment at which the body is written to the
    connection: connecting takes time, and leadership may be lost meanwhile.
    """

    verb: str
    path: str
    query: Mapping[str, str]
    kind: str
    body: bytes | None = None
    permit: Callable[[], bool] = always_permitted


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the HTTP status, the whole body, and the value of `Retry-After`."""

    status: int
    content: bytes = b""
    wait: str = ""


#: The response that begins a stream, and its chunks; a response of 400 or above is complete, without chunks.
Stream = tuple[Answer, AsyncIterator[bytes]]


class Transport(Protocol):
    """Sends requests; raises only `TransportError` and `WriteNotPermitted`."""

    async def exchange(self, request: Request) -> Answer:
        """Send one request, without retries, and return the whole response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send one request whose response lasts until the server ends it or the context exits."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class GuardedPayload(aiohttp.BytesPayload):
    """A request body that is sent only with permission."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.body or b"", content_type=request.kind)
        self._permit = request.permit

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body if permitted, else raise `WriteNotPermitted`: without a body the server does nothing."""
        if not self._permit():
            raise WriteNotPermitted("sending is no longer permitted")
        await super().write_with_length(writer, content_length)


class AiohttpTransport:
    """The connection pool to an API server; must be created within a running event loop."""

    def __init__(self, credentials: Credentials) -> None:
        self._server = credentials.server
        self._token_source = TokenSource(credentials)
        connector = aiohttp.TCPConnector(limit=0, ssl=credentials.tls() or True)
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, connect=CONNECT_TIMEOUT)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)

    async def close(self) -> None:
        """Close all connections, and wait briefly for the TLS closing handshake of cancelled ones."""
        await self._session.close()
        await asyncio.sleep(TLS_CLOSE)

    async def exchange(self, request: Request) -> Answer:
        """Send one request, and once more if the token was rejected and can be read again: nothing was done then.

        Raises `TransportError` and `WriteNotPermitted`.
        """
        if not request.permit():
            raise WriteNotPermitted("sending is no longer permitted")
        answer = await self._exchange(request)
        if answer.status == HTTPStatus.UNAUTHORIZED and self._token_source.renew():
            answer = await self._exchange(request)
        return answer

    async def _exchange(self, request: Request) -> Answer:
        try:
            async with self._session.request(
                request.verb,
                self._server + request.path,
                params=request.query,
                data=None if request.body is None else GuardedPayload(request),
                headers=self._headers(request),
                allow_redirects=False,
            ) as answer:
                _refuse_redirect(answer)
                return await _whole(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error.__cause__, WriteNotPermitted):
                raise error.__cause__ from None
            raise TransportError(f"{type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Send one request, yield its response and chunks as they arrive; raises `TransportError` at any time."""
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=READ_TIMEOUT)
        url = self._server + request.path
        try:
            headers = self._headers(request)
            async with self._session.get(
                url, params=request.query, headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                _refuse_redirect(answer)
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    yield await _whole(answer), answer.content.iter_any()
                    return
                try:
                    yield Answer(answer.status), answer.content.iter_any()
                finally:
                    _drop(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"{type(error).__name__}: {error}") from error

    def _headers(self, request: Request) -> dict[str, str]:
        return {"Content-Type": request.kind, "Accept": "application/json", **self._token_source.headers()}


def _refuse_redirect(answer: aiohttp.ClientResponse) -> None:
    """Raise `TransportError` for a redirect: it may lead to plain http, or to a server that must not see the token."""
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        where = answer.headers.get("Location", "").partition("?")[0][:200]
        raise TransportError(f"the server answers with a redirect ({answer.status}) to {where}, which is not followed")


async def _whole(answer: aiohttp.ClientResponse) -> Answer:
    return Answer(answer.status, await answer.read(), answer.headers.get("Retry-After", ""))


def _drop(answer: aiohttp.ClientResponse) -> None:
    # A TLS closing handshake waits for that of the server for up to 30 s, and outlasts the connection pool.
    if answer.connection and answer.connection.transport:
        answer.connection.transport.abort()


#: The longest line of a watch, in bytes: no object is bigger than etcd's 1.5 MiB, and JSON may inflate it.
MAX_LINE_BYTES = 8 * 1024 * 1024
#: Characters that are kept of the server's error message.
MAX_ERROR_LENGTH = 2000
#: Status codes after which a repeated request may succeed: a new token is read, or the server recovers.
UNSETTLED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT)
JSON, MERGE_PATCH = "application/json", "application/merge-patch+json"
FIELD_MANAGER = {"fieldManager": "trainshed"}

#: Called for every request with its verb, resource and HTTP status, 0 without a response.
Listener = Callable[[str, str, int], None]
#: Returns whether this replica may write now.
Permit = Callable[[], bool]


class AlreadyExists(Conflict):
    """An object of that name exists; the caller has to check its controller."""

    reason = "AlreadyExists"


@dataclass(frozen=True, slots=True)
class Path:
    """The path of objects: `prefix` is `/api/v1` or `/apis/group/version`; an empty namespace means all namespaces."""

    prefix: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        parts = (self.plural, self.name, self.subresource)
        return self.prefix + within + "".join(f"/{part}" for part in parts if part)


class RestClient:
    """Requests and watches over a transport; must be closed. `under_way` counts the requests without a response."""

    def __init__(self, transport: Transport, listener: Listener = lambda _verb, _resource, _status: None) -> None:
        self._transport = transport
        self._listener = listener
        self.under_way = 0

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def call(self, verb: str, path: Path, body: object = None, query: Mapping[str, str] | None = None) -> bytes:
        """Send one request, without retries, and return the body of the response.

        Raises the errors of `trainshed.client`, and `AlreadyExists`.
        """
        data = None if body is None else orjson.dumps(body)
        return await self._exchange(path, Request(verb, str(path), query or {}, _content_type(verb), data), body)

    async def write(self, verb: str, path: Path, body: object, permit: Permit) -> bytes:
        """Send one write, if `permit` allows it at the moment of sending; otherwise raises `NotLeader`."""
        query = {} if verb == "DELETE" else FIELD_MANAGER
        request = Request(verb, str(path), query, _content_type(verb), orjson.dumps(body), permit)
        return await self._exchange(path, request, body)

    async def _exchange(self, path: Path, request: Request, body: object) -> bytes:
        status = 0
        self.under_way += 1
        try:
            answer = await self._transport.exchange(request)
            status = answer.status
        except TransportError as broken:
            raise Unavailable(f"{request.verb} {path.plural}: {broken}") from broken
        except WriteNotPermitted as withheld:
            raise NotLeader(
                f"{request.verb} {path.plural} was not sent: this replica no longer holds the Lease"
            ) from withheld
        finally:
            self.under_way -= 1
            self._listener(request.verb, path.plural, status)
        if status >= HTTPStatus.BAD_REQUEST:
            raise _error(answer, body)
        return answer.content

    async def watch(self, path: Path, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it; raises the errors of `call`."""
        try:
            async with self._transport.stream(Request("GET", str(path), query, JSON)) as (answer, pieces):
                self._listener("WATCH", path.plural, answer.status)
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise _error(answer)
                async for line in _lines(pieces):
                    yield line
        except TransportError as broken:
            raise Unavailable(f"watching {path.plural}: {broken}") from broken


def _content_type(verb: str) -> str:
    return MERGE_PATCH if verb == "PATCH" else JSON


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for count, line in enumerate(whole, 1):
            yield line
            if count % 200 == 0:
                await asyncio.sleep(0)  # a burst of events must not block the event loop
        if len(rest) > MAX_LINE_BYTES:
            raise Unavailable("a line of the watch is too long")


def _error(answer: Answer, body: object = None) -> ApiError:
    """Return the error of a response, with the server's message; values quoted from the request body are redacted."""
    status = answer.status
    reason, message = _status(answer.content)
    message = redact(message, body)[:MAX_ERROR_LENGTH]
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(message, _seconds(answer.wait))
    if status == HTTPStatus.FORBIDDEN:
        return Forbidden(message, _denial(message))
    if status in UNSETTLED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(f"{status}: {message}", "Unauthorized" if status == HTTPStatus.UNAUTHORIZED else "")
    known: dict[int, type[ApiError]] = {
        HTTPStatus.NOT_FOUND: NotFound,
        HTTPStatus.CONFLICT: Conflict,
        HTTPStatus.GONE: Gone,
    }
    return known.get(status, Invalid)(message)


def _status(content: bytes) -> tuple[str, str]:
    try:
        found: Any = orjson.loads(content)
        return str(found.get("reason", "")), str(found.get("message", ""))
    except (ValueError, AttributeError):
        return "", content[:MAX_ERROR_LENGTH].decode(errors="replace")


def _denial(message: str) -> str:
    if "exceeded quota" in message:
        return "QuotaExceeded"
    if "because it is being terminated" in message:
        return "NamespaceTerminating"
    return "Forbidden"


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isdecimal() else 1.0

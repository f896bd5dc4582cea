"""The transport of requests to the API server: single exchanges and streams; `Sockets` implements it with aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from .credentials import Badge, Credentials

#: Timeouts in seconds: a whole request, a connection, and a stream without data (bookmarks arrive about once a minute).
REQUEST, CONNECT, SILENCE = 30.0, 5.0, 90.0
#: Seconds for the TLS closing handshake of cancelled connections.
TLS_CLOSE = 0.25


class Broken(Exception):
    """There was no complete response: the request may or may not have been carried out."""


class Withheld(Exception):
    """The request may no longer be sent; nothing was sent."""


def always() -> bool:
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
    permit: Callable[[], bool] = always


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the HTTP status, the whole body, and the value of `Retry-After`."""

    status: int
    content: bytes = b""
    wait: str = ""


#: The response that begins a stream, and its chunks; a response of 400 or above is complete, without chunks.
Stream = tuple[Answer, AsyncIterator[bytes]]


class Transport(Protocol):
    """Sends requests; raises only `Broken` and `Withheld`."""

    async def exchange(self, request: Request) -> Answer:
        """Send one request, without retries, and return the whole response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send one request whose response lasts until the server ends it or the context exits."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Permitted(aiohttp.BytesPayload):
    """A request body that is sent only with permission."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.body or b"", content_type=request.kind)
        self._permit = request.permit

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body if that is permitted, else raise `Withheld`: without a body the server does nothing."""
        if not self._permit():
            raise Withheld("sending is no longer permitted")
        await super().write_with_length(writer, content_length)


class Sockets:
    """The connection pool to an API server; must be created within a running event loop."""

    def __init__(self, credentials: Credentials) -> None:
        self._server = credentials.server
        self._badge = Badge(credentials)
        connector = aiohttp.TCPConnector(limit=0, ssl=credentials.tls() or True)
        timeout = aiohttp.ClientTimeout(total=REQUEST, connect=CONNECT)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)

    async def close(self) -> None:
        """Close all connections, and wait briefly for the TLS closing handshake of cancelled ones."""
        await self._session.close()
        await asyncio.sleep(TLS_CLOSE)

    async def exchange(self, request: Request) -> Answer:
        """Send one request, and once more if the token was rejected and can be read again: nothing was done then.

        Raises `Broken` and `Withheld`.
        """
        if not request.permit():
            raise Withheld("sending is no longer permitted")
        answer = await self._exchange(request)
        if answer.status == HTTPStatus.UNAUTHORIZED and self._badge.renew():
            answer = await self._exchange(request)
        return answer

    async def _exchange(self, request: Request) -> Answer:
        try:
            async with self._session.request(
                request.verb,
                self._server + request.path,
                params=request.query,
                data=None if request.body is None else Permitted(request),
                headers=self._headers(request),
                allow_redirects=False,
            ) as answer:
                _refuse_redirect(answer)
                return await _whole(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error.__cause__, Withheld):
                raise error.__cause__ from None
            raise Broken(f"{type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Send one request and yield its response and chunks as they arrive; raises `Broken`, also between chunks."""
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT, sock_read=SILENCE)
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
            raise Broken(f"{type(error).__name__}: {error}") from error

    def _headers(self, request: Request) -> dict[str, str]:
        return {"Content-Type": request.kind, "Accept": "application/json", **self._badge.headers()}


def _refuse_redirect(answer: aiohttp.ClientResponse) -> None:
    """Raise `Broken` for a redirect: it may lead to plain http, or to a server that must not get the credentials."""
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        where = answer.headers.get("Location", "").partition("?")[0][:200]
        raise Broken(f"the server answers with a redirect ({answer.status}) to {where}, which is not followed")


async def _whole(answer: aiohttp.ClientResponse) -> Answer:
    return Answer(answer.status, await answer.read(), answer.headers.get("Retry-After", ""))


def _drop(answer: aiohttp.ClientResponse) -> None:
    # A TLS closing handshake waits for that of the server for up to 30 s, and outlasts the connection pool.
    if answer.connection and answer.connection.transport:
        answer.connection.transport.abort()

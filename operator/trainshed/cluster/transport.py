"""How bytes get to the API server and back: one exchange, or one stream of pieces; `Sockets` does it by aiohttp."""

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

#: Seconds: a request as a whole, making a connection, and a stream without a byte (bookmarks come every minute or so).
REQUEST, CONNECT, SILENCE = 30.0, 5.0, 90.0
GOODBYE = 0.25


class Broken(Exception):
    """There was no answer, or not all of it: the request may or may not have been carried out."""


class Withheld(Exception):
    """There is no permission to send the request, any more."""


def always() -> bool:
    """Yes."""
    return True


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: `path` begins with a slash, `kind` is the content type of the body.

    A body is sent with `permit` only, which is asked for when it is written to the connection and not a moment before:
    to make a connection takes time, and somebody may have stopped us meanwhile.
    """

    verb: str
    path: str
    query: Mapping[str, str]
    kind: str
    body: bytes | None = None
    permit: Callable[[], bool] = always


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said: its HTTP status, the whole body, and the text of `Retry-After`."""

    status: int
    content: bytes = b""
    wait: str = ""


#: What a stream begins with, and its pieces; an answer of 400 or more is whole, and no piece follows.
Stream = tuple[Answer, AsyncIterator[bytes]]


class Transport(Protocol):
    """Carries requests as they are; the only errors that it raises are `Broken` and `Withheld`."""

    async def exchange(self, request: Request) -> Answer:
        """One request, once, and its whole answer."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """One request whose answer goes on until the server ends it, or the context is left."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...


class Permitted(aiohttp.BytesPayload):
    """A body that nobody sees without permission."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.body or b"", content_type=request.kind)
        self._permit = request.permit

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body, if that is permitted; without it the server does nothing."""
        if not self._permit():
            raise Withheld("it may not be sent any more")
        await super().write_with_length(writer, content_length)


class Sockets:
    """The one connection pool to a real API server; to be made where an event loop runs."""

    def __init__(self, credentials: Credentials) -> None:
        self._server = credentials.server
        self._badge = Badge(credentials)
        connector = aiohttp.TCPConnector(limit=0, ssl=credentials.tls() or True)
        timeout = aiohttp.ClientTimeout(total=REQUEST, connect=CONNECT)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)

    async def close(self) -> None:
        """Let go of all connections; those that were broken off get a moment for the server's goodbye by TLS."""
        await self._session.close()
        await asyncio.sleep(GOODBYE)

    async def exchange(self, request: Request) -> Answer:
        """One request, once, or twice if a rotated token was refused: then it was not carried out.

        Raises `Broken` and `Withheld`.
        """
        if not request.permit():
            raise Withheld("it may not be sent any more")
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
        """One request and the pieces of its answer as they come; raises `Broken`, also between pieces."""
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
    # A polite goodbye by TLS waits for the other side's, up to half a minute, and outlives the pool that began it.
    if answer.connection and answer.connection.transport:
        answer.connection.transport.abort()

"""An HTTP proxy between operators and the API server: it records each write, and a test may change any response."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web

from support.replace import replace
from testbed.kubeconfig import kubeconfig

from .api_request import Answer, Request
from .background import in_background
from .user_client import AsyncClient, split

#: Sends a request to the server, and returns its answer.
Forward = Callable[[], Awaitable[Answer]]
OnRequest = Callable[[Request, Forward], Awaitable[Answer]]
OnWatch = Callable[[Request, AsyncIterator[bytes]], AsyncIterator[bytes]]
#: Headers that belong to one connection; and the credentials, because the proxy has its own.
HOP = {"connection", "host", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "authorization"}
LOST = Answer(0, b"", cut=-1)


async def unchanged(_request: Request, forward: Forward) -> Answer:
    """Forward a request and return the answer as it is."""
    return await forward()


def from_server(_request: Request) -> None:
    """Let the server answer."""


def unchanged_watch(_request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Forward a watch as it is."""
    return lines


@dataclass(frozen=True, slots=True)
class Passed:
    """A write: the status and body of the server, 0 if it was not forwarded; and the status that the operator got."""

    request: Request
    stored: int
    found: bytes
    received: int
    at: float


@dataclass
class Route:
    """The fate of the requests in one namespace; `writes` are all writes so far, in the order of arrival.

    `instead` is the answer to a request, or to a watch, that is not forwarded.
    """

    instead: Callable[[Request], Answer | None] = from_server
    on_write: OnRequest = unchanged
    on_read: OnRequest = unchanged
    on_watch: OnWatch = unchanged_watch
    writes: list[Request] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    under_way: list[Request] = field(default_factory=list)

    def noted(self, request: Request) -> Request:
        """The request, with its number if it is a write."""
        if request.writes:
            request = replace(request, number=len(self.writes) + 1)
            self.writes.append(request)
        return request

    async def answer(self, request: Request, forward: Forward) -> Answer:
        """The answer for the operator; writes are recorded."""
        self.under_way.append(request)
        try:
            return await (self._written if request.writes else self.on_read)(request, forward)
        finally:
            self.under_way.remove(request)

    async def _written(self, request: Request, forward: Forward) -> Answer:
        asked: list[Answer] = []

        async def asking() -> Answer:
            asked.append(await forward())
            return asked[-1]

        answer = await self.on_write(request, asking)
        stored = asked[0] if asked else LOST
        received = answer.status if answer.cut is None else 0
        self.passed.append(Passed(request, stored.status, stored.body, received, time.time()))
        return answer


class FaultProxy:
    """Listens on a port of its own; `routes` by namespace, `default` for all other requests."""

    def __init__(self, client: AsyncClient) -> None:
        self.routes: dict[str, Route] = {}
        self.default = Route()
        self._client = client
        self._under_way: set[asyncio.Task] = set()

    @classmethod
    def start(cls, kubeconfig: Path) -> AbstractContextManager[Self]:
        """One in the background, with the credentials of a kubeconfig."""

        @asynccontextmanager
        async def started() -> AsyncIterator[Self]:
            async with AsyncClient(kubeconfig) as client, cls(client) as proxy:
                yield proxy

        return in_background(started())

    async def __aenter__(self) -> Self:
        self._server = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._listener = await asyncio.get_running_loop().create_server(self._server, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        await self._server.shutdown(1)

    def kubeconfig(self, folder: Path, **user: str) -> Path:
        """A kubeconfig that leads through this proxy."""
        return kubeconfig(folder / "proxy.kubeconfig", "proxy", f"http://127.0.0.1:{self.port}", user)

    def hang_up(self) -> None:
        for connection in self._server.connections:
            if connection.transport:
                connection.transport.abort()

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        body = await incoming.read()
        request = Request(incoming.method, incoming.path_qs, body, incoming.headers, at=time.time())
        route = self.routes.get(request.namespace, self.default)
        request = route.noted(request)
        if answer := route.instead(request):
            return await _give(incoming, answer)
        if request.watches:
            return await self._stream(incoming, request, route)
        # An operator that is killed meanwhile cannot take back what it has sent.
        task = asyncio.create_task(route.answer(request, partial(self._forward, request)))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await _give(incoming, await asyncio.shield(task))

    async def _forward(self, request: Request) -> Answer:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        url, session = self._client.url + request.path, self._client.session
        timeout = aiohttp.ClientTimeout(total=120)
        try:
            async with session.request(
                request.verb, url, data=request.body or None, headers=headers, timeout=timeout
            ) as answer:
                return Answer(answer.status, await answer.read(), _kept(answer))
        except (aiohttp.ClientError, OSError, TimeoutError):
            return LOST

    async def _stream(self, incoming: web.BaseRequest, request: Request, route: Route) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        try:
            async with self._client.stream(request.path, headers=headers) as answer:
                if answer.status >= 400:
                    return await _give(incoming, Answer(answer.status, await answer.read(), _kept(answer)))
                response = web.StreamResponse(status=200, headers=_kept(answer))
                response.enable_chunked_encoding()
                await response.prepare(incoming)
                async with aclosing(split(answer.content)) as lines:
                    watched = lines if request.by_kopf else route.on_watch(request, lines)
                    async for line in watched:
                        await response.write(line + b"\n")
                return response
        except (aiohttp.ClientError, OSError, TimeoutError):
            return await _give(incoming, LOST)


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    found = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
    if "Retry-After" in answer.headers:
        found["Retry-After"] = answer.headers["Retry-After"]
    return found


async def _give(incoming: web.BaseRequest, answer: Answer) -> web.StreamResponse:
    if answer.cut is None:
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
    if answer.cut >= 0:
        length = {"Content-Length": str(len(answer.body))}
        response = web.StreamResponse(status=answer.status, headers={**answer.headers, **length})
        with contextlib.suppress(ConnectionError):
            await response.prepare(incoming)
            await response.write(answer.body[: answer.cut])
            await asyncio.sleep(0)
    if incoming.transport:
        incoming.transport.abort()
    return web.Response(status=499)

"""The way to a server in the same process, in place of a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from trainshed.client.transport import Answer, Request, Stream, WriteNotPermitted

from .errors import StatusError
from .server import Server
from .watch import Watch

#: Seconds between the bookmarks of a watch, and after which a watch without a time-out ends.
BOOKMARKS, LONGEST = 60.0, 1800.0


class MemoryTransport:
    """Implements `trainshed.client.transport.Transport`; the server knows who sends the requests as `actor`."""

    def __init__(self, server: Server, actor: str = "") -> None:
        self._server = server
        self._actor = actor

    async def exchange(self, request: Request) -> Answer:
        """Return the response; raises `WriteNotPermitted`. Other tasks run meanwhile, as with a network."""
        await asyncio.sleep(0)
        if not request.permit():
            raise WriteNotPermitted
        answer = self._server.handle(self._actor, request)
        await asyncio.sleep(0)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a watch until its time-out, or until the context exits."""
        lines = Lines()
        try:
            watch = self._server.watch(request.path, request.query, lines.put)
        except StatusError as refused:
            yield Answer(refused.code, refused.content), _nothing()
            return
        try:
            yield Answer(HTTPStatus.OK), self._pieces(watch, lines, float(request.query.get("timeoutSeconds", LONGEST)))
        finally:
            self._server.watches.close(watch)

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def _pieces(self, watch: Watch, lines: Lines, seconds: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not watch.closed and loop.time() < end:
            if not await lines.wait(min(BOOKMARKS, end - loop.time())):
                watch.bookmark(self._server.store.version)
            yield lines.take()
        yield lines.take()


class Lines:
    """The lines of a watch that have not been read."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._changed = asyncio.Event()

    def put(self, line: bytes) -> None:
        """Add a line."""
        self._lines.append(line)
        self._changed.set()

    def take(self) -> bytes:
        """Return all lines, and keep none."""
        found, self._lines = b"".join(self._lines), []
        self._changed.clear()
        return found

    async def wait(self, seconds: float) -> bool:
        """Wait for a line, at most so long; return whether there is one."""
        try:
            async with asyncio.timeout(max(seconds, 0)):  # `wait_for` of Python 3.11 may lose a cancellation
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


async def _nothing() -> AsyncIterator[bytes]:
    """Yield nothing: the watch was refused."""
    lines: tuple[bytes, ...] = ()
    for line in lines:
        yield line

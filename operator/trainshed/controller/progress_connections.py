"""The connections of the progress endpoint: how many an address and all of them have, and how long one lasts."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

from aiohttp import web

from .health import SHUTDOWN_TIMEOUT, is_own_error

#: The most connections of all and of an address, the seconds that one lasts, and those of its handshake. A client sends
#: one small request and gives up after five seconds.
MAX_CONNECTIONS, OF_ADDRESS, SECONDS, HANDSHAKE = 512, 16, 15.0, 5.0
#: Where all users of a machine have one address, Linux says whose a socket is: its address, state and user are among
#: the words of a line.
LOOPBACK, TCP_SOCKETS, ESTABLISHED = "127.0.0.1", Path("/proc/net/tcp"), "01"


class _Connection(asyncio.Protocol):
    """Passes everything on to the protocol of the server, and remembers when it is over."""

    def __init__(self, inner: asyncio.Protocol) -> None:
        self._inner = inner
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
        self._inner.connection_lost(exc)


class TlsConnections:
    """Accepts connections on a socket. What an address has too many of is closed before its handshake.

    Who opens connections and sends nothing takes neither the files that the process may open nor the places of others.
    """

    def __init__(self, make: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        self._make = make
        self._context = context
        self._of = Counter[str]()
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections without end."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:  # the client is gone already, or the process has no files left
                await asyncio.sleep(0.1)
                continue
            host = peer(str(address[0]), int(address[1]))
            if len(self._tasks) >= MAX_CONNECTIONS or self._of[host] >= OF_ADDRESS:
                connection.close()
                continue
            self._of[host] += 1
            task = asyncio.create_task(self._serve(connection, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, connection: socket.socket, host: str) -> None:
        made = _Connection(self._make())
        transport: asyncio.BaseTransport | None = None
        try:
            async with asyncio.timeout(SECONDS):
                with suppress(OSError):  # among them: the handshake has failed
                    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                        lambda: made, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE
                    )
                    await made.over.wait()
        except TimeoutError:
            pass
        finally:
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            else:
                connection.close()
            self._of[host] -= 1
            if not self._of[host]:
                del self._of[host]


def peer(host: str, port: int) -> str:
    """Return whose connections are counted together: those of an address, or of a user of this machine."""
    if host != LOOPBACK:
        return host
    try:
        lines = TCP_SOCKETS.read_text().splitlines()[1:]
    except OSError:  # not Linux
        return host
    sockets = (line.split(maxsplit=8) for line in lines)
    found = (each[7] for each in sockets if each[1] == f"0100007F:{port:04X}" and each[3] == ESTABLISHED)
    return f"{host} of user {next(found, 'unknown')}"


async def serve(
    path: str,
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
    largest: int,
    context: ssl.SSLContext,
    sockets: Iterable[socket.socket],
) -> None:
    """Handle POSTs to a path, with bodies of at most so many bytes, on these sockets; without end, then close them."""
    logging.getLogger("aiohttp.server").addFilter(is_own_error)
    app = web.Application(client_max_size=largest)
    app.router.add_post(path, handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT, auto_decompress=False)
    await runner.setup()
    connections = TlsConnections(cast("web.Server", runner.server), context)
    try:
        async with asyncio.TaskGroup() as group:
            for each in sockets:
                group.create_task(connections.accept(each))
    finally:
        await connections.close()
        await runner.cleanup()
        for each in sockets:
            each.close()

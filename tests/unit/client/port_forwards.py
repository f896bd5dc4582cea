"""An API server that forwards ports of every pod to one address of this machine, as kubelets do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import WSMsgType, web

from trainshed.client.port_forward import PROTOCOL


class PortForwards:
    """`asked` has the path and the Authorization of each request; `refusals` are the statuses of the next answers."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.asked: list[tuple[str, str]] = []
        self.refusals: list[int] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Forward one connection."""
        self.asked.append((str(request.rel_url), request.headers.get("Authorization", "")))
        if self.refusals:
            return web.Response(status=self.refusals.pop(0))
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        port = int(request.query["ports"]).to_bytes(2, "little")
        for channel in (b"\x00", b"\x01"):
            await socket.send_bytes(channel + port)
        try:
            reader, writer = await asyncio.open_connection(*self.target)
        except OSError:
            await socket.send_bytes(b"\x01dial tcp4 127.0.0.1: connect: connection refused")
            return socket
        upward = asyncio.create_task(_up(socket, writer))
        try:
            while content := await reader.read(1000):
                await socket.send_bytes(b"\x00" + content)
            await socket.close()
        finally:
            upward.cancel()
            writer.transport.abort()
        return socket


async def _up(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                writer.write(message.data[1:])


@asynccontextmanager
async def forwarding(target: tuple[str, int]) -> AsyncIterator[tuple[PortForwards, str]]:
    """The server, and its URL."""
    forwards = PortForwards(target)
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/portforward", forwards.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield forwards, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

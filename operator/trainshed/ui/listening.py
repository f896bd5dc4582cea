"""How the servers of the page listen, and where the files are that all pages load."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

#: The folder of the files of all pages.
STATIC = Path(__file__).parent / "static"


@asynccontextmanager
async def listening(app: web.Application, host: str | None, port: int, grace: float) -> AsyncIterator[int]:
    """Serve an application, at a free port if it is 0, on all interfaces without a host; yield the port.

    Requests have `grace` seconds when the server ends. Raises `OSError`.
    """
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=grace
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()

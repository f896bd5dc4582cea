"""How the servers of the page listen, and where the files are that all pages load."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

#: The folder of the files of all pages.
STATIC = Path(__file__).parent / "static"
#: What is said of a port that cannot be used; `flag` is the option that chooses it.
REFUSED_PORTS = {
    errno.EADDRINUSE: "Port {port} is in use by another program. Choose another one with {flag}, or end that program.",
    errno.EACCES: "Port {port} may not be used by you. Choose one above 1023 with {flag}.",
    errno.EADDRNOTAVAIL: "This machine does not have the address {host}. Choose one that it has with {flag}.",
}
#: Seconds between two lines about requests that are no HTTP.
SAID_EVERY = 60.0


class MalformedRequests(logging.Filter):
    """Counts requests that are no HTTP, and says so now and then in place of what they contain."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self._said = 0, -SAID_EVERY

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged; a browser that has left an open page is no error."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return not isinstance(error, ConnectionResetError)
        self.count += 1
        if time.monotonic() - self._said < SAID_EVERY:
            return False
        self._said = time.monotonic()
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = "malformed requests that were refused since the start: %d", (self.count,)
        record.exc_info = record.exc_text = None
        return True


MALFORMED = MalformedRequests()


@asynccontextmanager
async def listening(
    app: web.Application, host: str | None, port: int, grace: float, flag: str = "--port"
) -> AsyncIterator[int]:
    """Serve an application, at a free port if it is 0, on all interfaces without a host; yield the port.

    Requests have `grace` seconds when the server ends. Raises `OSError`, which names the flag that chooses the port.
    """
    logging.getLogger("aiohttp.server").addFilter(MALFORMED)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=grace
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            if said := REFUSED_PORTS.get(error.errno or 0):
                raise OSError(said.format(host=host, port=port, flag=flag)) from error
            raise
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()

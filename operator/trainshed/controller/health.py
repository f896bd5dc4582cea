"""HTTP endpoints: /healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, cast

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as EXPOSITION

from trainshed.config import bind_address

if TYPE_CHECKING:  # the server needs a fifth of a second to be imported, and jobs wait at the start
    from aiohttp import web

#: Liveness limits in seconds: the lag tolerated per window, the window, and the part of one lag that counts.
MAX_LAG, WINDOW, MAX_SINGLE_LAG = 30.0, 60.0, 10.0
#: Seconds after the cache sync at which requests are answered, and the latest time after the start.
AFTER_SYNC, AT_LATEST = 0.25, 1.0
#: Seconds: the interval of the measurements, the lag that is ignored, and the time for open responses at shutdown.
INTERVAL, MIN_LAG, SHUTDOWN_TIMEOUT = 0.25, 0.01, 0.1
#: Seconds for which a text of metrics answers all requests: with ten thousand jobs a new one takes the event loop tens
#: of milliseconds, and every pod that may connect can ask for it.
METRICS_AGE = 1.0
#: Every pod may connect to the port of the probes. The most connections of an address, of which the oldest are closed
#: for newer ones, the seconds that one lasts at most, and those that are accepted at a time.
MAX_CONNECTIONS, MAX_CONNECTION_SECONDS, BACKLOG = 200, 60.0, 64


#: Answers a request.
Handler = Callable[["web.Request"], Awaitable["web.Response"]]


class LoopLagMonitor:
    """Measures the lag of the event loop four times a second and keeps the last minute.

    A loop that hangs answers no probe at all, which the kubelet notices by itself. A loop that hangs again and again
    does answer in between, when the current lag is low; so past lags are remembered. A machine that was suspended, or a
    process that was stopped once, has one long lag and is healthy again.
    """

    def __init__(self) -> None:
        self._lags: deque[tuple[float, float]] = deque()

    async def run(self) -> None:
        """Measure without end."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + INTERVAL
            await asyncio.sleep(INTERVAL)
            self.record(clock(), due)

    def record(self, now: float, due: float) -> None:
        """Record the lag of one measurement: it happened at `now` and was scheduled for `due`."""
        while self._lags and self._lags[0][0] <= now - WINDOW:
            self._lags.popleft()
        if now - due > MIN_LAG:
            self._lags.append((now, now - due))

    @property
    def max_lag(self) -> float:
        """The maximum lag in the last minute, in seconds."""
        return max((lag for _, lag in self._lags), default=0.0)

    @property
    def problem(self) -> str:
        """Why the kubelet should restart the process, or an empty string."""
        late = sum(min(lag, MAX_SINGLE_LAG) for _, lag in self._lags)
        return f"the event loop lagged by {late:.0f} s in the last {WINDOW:.0f} s" if late > MAX_LAG else ""


class BoundedConnections:
    """Makes the connections of a server, and closes the oldest; a new one is answered before it is among these.

    Otherwise who opens connections and sends nothing takes all the files that the process may open.
    """

    def __init__(self, make: Callable[[], web.RequestHandler]) -> None:
        self._make = make
        self._open: deque[tuple[web.RequestHandler, asyncio.TimerHandle]] = deque()

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        made = self._make()
        timer = asyncio.get_running_loop().call_later(MAX_CONNECTION_SECONDS, _abort, made)
        self._open.append((made, timer))
        if len(self._open) > MAX_CONNECTIONS:
            oldest, unneeded = self._open.popleft()
            unneeded.cancel()
            _abort(oldest)
        return made


def _abort(connection: web.RequestHandler) -> None:
    if connection.transport is not None:
        connection.transport.abort()


class HealthServer:
    """/healthz and /readyz on one address, /metrics on another.

    `problem` returns why the operator is not ready, or "". `ready_message` returns what /readyz adds when it is.
    """

    def __init__(
        self,
        lag_monitor: LoopLagMonitor,
        problem: Callable[[], str],
        metrics_text: Callable[[], bytes],
        ready_message: Callable[[], str] = lambda: "",
    ) -> None:
        self._lag_monitor = lag_monitor
        self._problem = problem
        self._metrics_text = metrics_text
        self._last_metrics = (float("-inf"), b"")
        self._ready_message = ready_message
        self._bound: list[tuple[list[socket.socket], dict[str, Handler]]] = []
        self._runners: list[web.AppRunner] = []
        self._servers: list[asyncio.Server] = []

    def bind(self, health: str, metrics: str) -> None:
        """Bind these addresses (see `trainshed.config.bind_address`); raise OSError if that fails.

        Requests wait until `serve` is called.
        """
        probes: dict[str, Handler] = {"/healthz": self._healthz, "/readyz": self._readyz}
        figures: dict[str, Handler] = {"/metrics": self._metrics}
        for address, handlers in ((health, probes), (metrics, figures)):
            if where := bind_address(address):
                try:
                    self._bound.append((list(listening_sockets(*where)), handlers))
                except OSError as error:
                    raise OSError(f"cannot listen on {where[0] or ''}:{where[1]}: {error}") from error

    async def run(self, synced: asyncio.Event) -> None:
        """Serve without end; begin a moment after the cache sync, so that the jobs that wait come first."""
        with suppress(TimeoutError):
            async with asyncio.timeout(AT_LATEST):
                await synced.wait()
                await asyncio.sleep(AFTER_SYNC)
        await self.serve()
        await asyncio.Event().wait()

    async def serve(self) -> None:
        """Answer requests."""
        if not self._bound:
            return
        server = await asyncio.to_thread(import_module, "aiohttp.web")
        logging.getLogger("aiohttp.server").addFilter(is_own_error)
        for sockets, handlers in self._bound:
            app: web.Application = server.Application()
            for path, handler in handlers.items():
                app.router.add_get(path, handler)
            runner: web.AppRunner = server.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
            await runner.setup()
            self._runners.append(runner)
            connect = BoundedConnections(cast("web.Server", runner.server))
            loop = asyncio.get_running_loop()
            self._servers += [await loop.create_server(connect, sock=each, backlog=BACKLOG) for each in sockets]

    async def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()
        for runner in self._runners:
            await runner.cleanup()
        for sockets, _ in self._bound:
            for each in sockets:
                each.close()

    async def _healthz(self, _request: web.Request) -> web.Response:
        problem = self._lag_monitor.problem
        return _response(500, f"{problem}\n") if problem else _response(200, "ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if problem := self._problem():
            return _response(503, f"{problem}\n")
        return _response(200, "\n".join(line for line in ("ok", self._ready_message()) if line) + "\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        if now - self._last_metrics[0] >= METRICS_AGE:
            self._last_metrics = now, self._metrics_text()
        return _response(200, self._last_metrics[1], EXPOSITION)


def listening_sockets(host: str | None, port: int) -> Iterator[socket.socket]:
    """Yield a listening socket for each address of the host; None means all interfaces."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
        try:
            yield socket.create_server(address[:2], family=family)
        except OSError as error:
            if host is not None or error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise  # otherwise the machine has no IPv6


def _response(status: int, content: str | bytes, kind: str = "text/plain; charset=utf-8") -> web.Response:
    from aiohttp import web  # noqa: PLC0415 - see above

    body = content.encode() if isinstance(content, str) else content
    return web.Response(status=status, body=body, headers={"Content-Type": kind})


def is_own_error(record: logging.LogRecord) -> bool:
    """Return whether an error is the operator's own; drops malformed requests, whose content must not reach the log."""
    from aiohttp.http_exceptions import HttpProcessingError  # noqa: PLC0415 - see above

    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))

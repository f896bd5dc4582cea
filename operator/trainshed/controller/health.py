"""HTTP endpoints: /healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as EXPOSITION

from trainshed.config import bind_address

#: Liveness and readiness limits in seconds: the lag tolerated per window, the window, the part of one lag that counts,
#: and the maximum silence of a watch (the API server sends a bookmark about once a minute).
MAX_LAG, WINDOW, MAX_SINGLE_LAG, MAX_SILENCE = 30.0, 60.0, 10.0, 150.0
#: Seconds: the interval of the measurements, the lag that is ignored, and the time for open responses at shutdown.
INTERVAL, MIN_LAG, SHUTDOWN_TIMEOUT = 0.25, 0.01, 0.1


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
        self._ready_message = ready_message
        self._runners: list[web.AppRunner] = []
        logging.getLogger("aiohttp.server").addFilter(_is_own_error)

    async def open(self, health: str, metrics: str) -> None:
        """Listen on these addresses (see `trainshed.config.bind_address`); raise OSError if that fails."""
        probes = web.Application()
        probes.router.add_get("/healthz", self._healthz)
        probes.router.add_get("/readyz", self._readyz)
        metrics_app = web.Application()
        metrics_app.router.add_get("/metrics", self._metrics)
        for address, app in ((health, probes), (metrics, metrics_app)):
            if where := bind_address(address):
                await self._listen(where, app)

    async def close(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()

    async def _listen(self, where: tuple[str | None, int], app: web.Application) -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
        await runner.setup()
        self._runners.append(runner)
        try:
            await web.TCPSite(runner, *where).start()
        except OSError as error:
            raise OSError(f"cannot listen on {where[0] or ''}:{where[1]}: {error}") from error

    async def _healthz(self, _request: web.Request) -> web.Response:
        problem = self._lag_monitor.problem
        return web.Response(status=500, text=f"{problem}\n") if problem else web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if problem := self._problem():
            return web.Response(status=503, text=f"{problem}\n")
        return web.Response(text="\n".join(line for line in ("ok", self._ready_message()) if line) + "\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics_text(), headers={"Content-Type": EXPOSITION})


def _is_own_error(record: logging.LogRecord) -> bool:
    """Return whether an error is the operator's own; drops malformed requests, whose content must not reach the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))

"""What others may ask of the operator over HTTP: is it alive, is it ready, and its meters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

#: Seconds: so late the event loop may be, and so long a watch may be silent (bookmarks come every minute or so).
LATE, DEAF = 5.0, 150.0


class Pulse:
    """How late the event loop is, measured four times a second."""

    def __init__(self) -> None:
        self.lag = 0.0

    async def run(self) -> None:
        """Measure for ever."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + 0.25
            await asyncio.sleep(0.25)
            self.lag = max(0.0, clock() - due)


class Doors:
    """/healthz and /readyz on one address, /metrics on another; `problem` says why we are not ready, or nothing."""

    def __init__(self, pulse: Pulse, problem: Callable[[], str], meters: Callable[[], bytes]) -> None:
        self._pulse = pulse
        self._problem = problem
        self._meters = meters
        self._runners: list[web.AppRunner] = []

    async def open(self, health: str, metrics: str) -> None:
        """Listen at these addresses, `host:port`; an empty host is all of them, and an empty text none."""
        probes = web.Application()
        probes.router.add_get("/healthz", self._healthz)
        probes.router.add_get("/readyz", self._readyz)
        meters = web.Application()
        meters.router.add_get("/metrics", self._metrics)
        for address, app in ((health, probes), (metrics, meters)):
            if address:
                await self._listen(address, app)

    async def close(self) -> None:
        """Listen no more."""
        for runner in self._runners:
            await runner.cleanup()

    async def _listen(self, address: str, app: web.Application) -> None:
        host, _, port = address.rpartition(":")
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, host or None, int(port)).start()

    async def _healthz(self, _request: web.Request) -> web.Response:
        if self._pulse.lag > LATE:
            return web.Response(status=500, text=f"the event loop is {self._pulse.lag:.1f} s late\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        problem = self._problem()
        return web.Response(status=503, text=f"{problem}\n") if problem else web.Response(text="ok\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._meters(), content_type="text/plain")

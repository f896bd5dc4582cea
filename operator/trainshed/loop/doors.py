"""What others may ask of the operator over HTTP: is it alive, is it ready, and its meters."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as EXPOSITION

from trainshed.settings import bind_address

#: Seconds: so much of a while the event loop may be late, for how much of it one delay counts at the most, and so long
#: a watch may be silent (bookmarks come every minute or so).
LATE, WHILE, ONE, DEAF = 30.0, 60.0, 10.0, 150.0
#: Seconds between two beats, less than which is no delay, and for whoever is being answered when the doors close.
BEAT, NOTHING, GOODBYE = 0.25, 0.01, 0.1


class Pulse:
    """How late the event loop is, measured four times a second, and how late it was within the last minute.

    A loop that is stuck answers no probe at all: that a kubelet sees by itself. One that is stuck again and again does
    answer in between, and whoever asks how it is just then hears nothing bad: so what was is remembered. A machine that
    slept, or a process that was stopped once, has one long delay behind it and is well again.
    """

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque()

    async def run(self) -> None:
        """Measure for ever."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + BEAT
            await asyncio.sleep(BEAT)
            self.beat(clock(), due)

    def beat(self, now: float, due: float) -> None:
        """It is now, and was to be at another time."""
        while self._late and self._late[0][0] <= now - WHILE:
            self._late.popleft()
        if now - due > NOTHING:
            self._late.append((now, now - due))

    @property
    def worst(self) -> float:
        """By how many seconds it was late at the most within the last minute."""
        return max((lag for _, lag in self._late), default=0.0)

    @property
    def problem(self) -> str:
        """Why the process had better be started anew, or nothing."""
        late = sum(min(lag, ONE) for _, lag in self._late)
        return f"the event loop lagged by {late:.0f} s in the last {WHILE:.0f} s" if late > LATE else ""


class Doors:
    """/healthz and /readyz on one address, /metrics on another.

    `problem` says why we are not ready, or nothing; `remark` what else /readyz is to say if we are.
    """

    def __init__(
        self,
        pulse: Pulse,
        problem: Callable[[], str],
        meters: Callable[[], bytes],
        remark: Callable[[], str] = lambda: "",
    ) -> None:
        self._pulse = pulse
        self._problem = problem
        self._meters = meters
        self._remark = remark
        self._runners: list[web.AppRunner] = []
        logging.getLogger("aiohttp.server").addFilter(_ours)

    async def open(self, health: str, metrics: str) -> None:
        """Listen at these addresses, as `trainshed.settings.bind_address` reads them; raises OSError if that fails."""
        probes = web.Application()
        probes.router.add_get("/healthz", self._healthz)
        probes.router.add_get("/readyz", self._readyz)
        meters = web.Application()
        meters.router.add_get("/metrics", self._metrics)
        for address, app in ((health, probes), (metrics, meters)):
            if where := bind_address(address):
                await self._listen(where, app)

    async def close(self) -> None:
        """Listen no more."""
        for runner in self._runners:
            await runner.cleanup()

    async def _listen(self, where: tuple[str | None, int], app: web.Application) -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=GOODBYE)
        await runner.setup()
        self._runners.append(runner)
        try:
            await web.TCPSite(runner, *where).start()
        except OSError as error:
            raise OSError(f"cannot listen on {where[0] or ''}:{where[1]}: {error}") from error

    async def _healthz(self, _request: web.Request) -> web.Response:
        problem = self._pulse.problem
        return web.Response(status=500, text=f"{problem}\n") if problem else web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if problem := self._problem():
            return web.Response(status=503, text=f"{problem}\n")
        return web.Response(text="\n".join(line for line in ("ok", self._remark()) if line) + "\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._meters(), headers={"Content-Type": EXPOSITION})


def _ours(record: logging.LogRecord) -> bool:
    """Whether an error is ours. That a caller speaks no HTTP is not, and nothing of what was sent is for the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))

"""Keeps an operator running, as a cluster does."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from support import Operator

from .forked import Forked

KILLED = -9
NO_ENDPOINTS = ("--health-probe-bind-address=0", "--metrics-bind-address=0")


class ForkedOperator(Operator):
    """An operator that starts at once, without endpoints; its log is NAME.log."""

    def __init__(self, kubeconfig: Path, folder: Path, name: str, *flags: str, **constants: float) -> None:
        super().__init__(kubeconfig, folder, *flags)
        self.log = folder / f"{name}.log"
        self._constants = constants

    def _launched(self) -> Forked:
        words = (f"--kubeconfig={self.kubeconfig}", *NO_ENDPOINTS, *self._flags)
        return Forked(words, str(self.log), self._constants)

    def _ports(self) -> tuple[int, int]:
        return 0, 0


class Supervisor:
    """Restarts an operator whenever it ends, after `pause` seconds, unless it is `paused`; `codes` are its ends."""

    def __init__(self, operator: Operator, pause: tuple[float, float] = (0, 0)) -> None:
        self.operator = operator
        self.starts = 0
        self.codes: list[int] = []
        self.paused = False
        self._pause = pause

    async def __aenter__(self) -> Self:
        self._start()
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.operator.signal(signal.SIGKILL)
        await self.operator.ended()

    async def end(self) -> None:
        """Stop the operator, and do not restart it."""
        self.paused = True
        self.operator.signal(signal.SIGCONT)
        self.operator.signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.operator.ended(), 20)

    async def freeze(self, seconds: float) -> None:
        """Stop the process for so long, and let it continue."""
        pid = self.operator.pid
        self.operator.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        if self.operator.pid == pid:
            self.operator.signal(signal.SIGCONT)

    def complaints(self) -> Iterator[str]:
        """The lines of its log that no operator may write, and its exits that no signal has caused."""
        yield from self.operator.complaints()
        yield from (f"it ended with {code}" for code in self.codes if code not in (KILLED, 0))

    def _start(self) -> None:
        self.starts += 1
        self.operator.start(wait=False)

    async def _keep(self) -> None:
        while True:
            self.codes.append(await self.operator.ended())
            await asyncio.sleep(random.uniform(*self._pause))
            while self.paused:
                await asyncio.sleep(0.02)
            self._start()

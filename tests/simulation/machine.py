"""A process of the operator in the simulation: the production code, with a line to the server and its own clock."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Callable
from typing import Any

from support.audit.change import OPERATOR
from trainshed.api.framework import Framework
from trainshed.client.transport import Request
from trainshed.config import Config
from trainshed.controller.manager import Operator
from trainshed.runtime import Clock

from .faults import Weather
from .loop import PROCESS, VirtualLoop
from .server import Server
from .transport import Line

#: When the world begins, in seconds since 1970, less the loop's own thousand.
EPOCH = 1_767_225_600.0 - 1000


def settings(identity: str, **others: Any) -> Config:
    """An operator's settings: no doors, as there is no network, and a name among its replicas."""
    fixed = {"health": "", "metrics": "", "lease_namespace": "trainshed-system", "lease_identity": identity}
    return Config(**{**fixed, **others})


class Machine:
    """Where one replica of the operator runs, dies, and is started again; `name` tells it from the others.

    `skew` is by how many seconds its wall clock is ahead; it may be set at any time.
    """

    def __init__(
        self, loop: VirtualLoop, server: Server, name: str, weather: Weather, frameworks: tuple[Framework, ...]
    ) -> None:
        self.name = name
        self.skew = self._born_ahead = 0.0
        self.lives = 0
        self.settings: dict[str, Any] = {}
        self.operator: Operator | None = None
        self.line: Line | None = None
        self._loop = loop
        self._server = server
        self._weather = weather
        self._frameworks = frameworks
        self._process: object = None
        self._numbers = itertools.count(1)

    @property
    def runs(self) -> bool:
        """Whether there is a process, be it frozen."""
        return self.operator is not None

    @property
    def ahead(self) -> float:
        """By how many seconds the process that runs thinks that it is later than it is."""
        return self._born_ahead if self.runs else 0.0

    def start(self) -> None:
        """Start a process; it goes on when the loop does."""
        assert not self.runs, f"{self.name} runs already"
        self.lives += 1
        self._process = f"{self.name}-{self.lives}"
        self._born_ahead = self.skew
        self.line = Line(self._loop, self._server, self._weather, self.name, OPERATOR)
        context = contextvars.copy_context()
        context.run(PROCESS.set, self._process)
        context.run(self._begin)

    def crash(self, arrives: Callable[[Request], bool] = lambda _request: True) -> None:
        """The process is no more, between any two of its steps.

        Of its requests that are on their way those reach the server that `arrives` says. Must not be called from within
        a task.
        """
        if self.line is None:
            return
        self.line.fall(arrives)
        self._loop.vanish(self._process)
        self.operator = self.line = None

    def stop(self) -> asyncio.Task[None]:
        """Ask the process to end in good order, as SIGTERM does; the task is done when it has."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self._process)
        return self._loop.create_task(self._end(), context=context)

    def freeze(self) -> None:
        """As SIGSTOP does."""
        self._loop.freeze(self._process)

    def thaw(self) -> None:
        """As SIGCONT does."""
        self._loop.thaw(self._process)

    def _begin(self) -> None:
        wall = Clock(lambda: EPOCH + self._loop.time() + self.skew, self._loop.time)
        found = settings(f"{self.name}_{self.lives}", **self.settings)
        assert self.line is not None
        self.operator = Operator(found, self._frameworks, self.line, wall)
        # In virtual time no loop is ever late; to feel that pulse would be every second step of a schedule.
        self.operator._lag_monitor.run = asyncio.Event().wait  # type: ignore[method-assign,assignment]
        self._loop.create_task(self.operator.start())

    async def _end(self) -> None:
        operator = self.operator
        if operator is not None:
            await operator.stop()
            self.operator = self.line = None

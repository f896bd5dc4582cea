"""Operators that start in a fraction of a second, each a process of its own that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

TESTS = Path(__file__).parents[1]
#: Seconds for the first to be born, on a busy machine: importing the operator takes one where there is nothing else.
PATIENCE = 120.0


@dataclass
class Life:
    """One life of an operator. `over` has its exit code once it has ended, negative for a signal."""

    pid: int
    log: Path
    over: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return not self.over.done()

    def kill(self) -> None:
        """End it without a warning."""
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def end(self, within: float = 15) -> int:
        """Ask it to end, and see it do so; its exit code."""
        self.signal(signal.SIGTERM)
        return await asyncio.wait_for(asyncio.shield(self.over), within)


class Nursery:
    """Begins lives, by way of one process that has imported the operator; all end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives: dict[int, Life] = {}
        self._expected: dict[int, asyncio.Future[Life]] = {}
        self._numbers = itertools.count()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chaos.fork_server"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path)), "PYTHONUNBUFFERED": "1"},
        )
        self._listener = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.stdin.close()
        await self._process.wait()
        await self._listener

    async def begin(self, name: str, *words: str, **constants: float) -> Life:
        """A new life of an operator with these words on its command line; its log is NAME.log."""
        log, number = self._folder / f"{name}.log", next(self._numbers)
        order = {"number": number, "words": words, "log": str(log), "constants": constants}
        self._expected[number] = born = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        life = await asyncio.wait_for(born, PATIENCE)
        life.log = log
        return life

    async def _listen(self) -> None:
        async for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                self._lives.pop(told["pid"]).over.set_result(told["code"])
            else:
                self._lives[told["pid"]] = life = Life(told["pid"], self._folder)
                expected = self._expected.pop(told["number"])
                if expected.done():  # whoever gave the order has gone: nobody else may take this life for its own
                    life.kill()
                else:
                    expected.set_result(life)

"""Replicas of the operator, each a process of its own at a door of its own, which can be cut, slowed down and shut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import orjson

from chaos.history import Version
from chaos.proxy import LOST, Forward, Passed, Porter, Proxy
from chaos.request import Answer, Request
from testbed.processes import die_with_parent

ROOT = Path(__file__).parents[2]


@dataclass
class Line:
    """What a replica has to the API server. `shut` lets nothing pass; of a thousand answers `lossy` get lost.

    `says` is what all requests are answered with, and the server is not asked. `heard` is what the replica has read
    and its watches have told it, by namespace, of those that are open.
    """

    proxy: Proxy
    says: Answer | None = None
    shut: bool = False
    lossy: int = 0
    delay: float = 0.0
    cuts: asyncio.Event = field(default_factory=asyncio.Event)
    heard: dict[str, list[Version]] = field(default_factory=dict)

    def cut(self) -> None:
        """Break off all watches."""
        self.cuts.set()
        self.cuts = asyncio.Event()

    def open(self, namespace: str = "") -> None:
        """Begin to remember what passes in one namespace; of what concerns all of them nothing is kept."""
        porter = Porter(on_write=self._request, on_read=self._request, on_watch=self._watch)
        if namespace:
            self.proxy.porters[namespace] = porter
            self.heard[namespace] = []
        else:
            porter.passed = porter.writes = Oblivion()
            self.proxy.open_door = porter

    def close(self, namespace: str) -> tuple[list[Passed], list[Version]]:
        """The writes that have passed in a namespace since it was opened, and what its replica has heard of it."""
        return self.proxy.porters.pop(namespace).passed, self.heard.pop(namespace)

    async def _request(self, request: Request, forward: Forward) -> Answer:
        if self.shut or self.says:
            return LOST if self.shut else self.says
        if self.delay:
            await asyncio.sleep(self.delay)
        answer = await forward()
        if request.verb == "GET" and answer.status == HTTPStatus.OK:
            self._hear(request.plural, orjson.loads(answer.body))
        lost = request.verb != "GET" and random.randrange(1000) < self.lossy
        return LOST if lost or self.shut else answer

    async def _watch(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        tasks = [asyncio.ensure_future(self.cuts.wait())]
        try:
            while not self.shut:
                tasks[1:] = [asyncio.ensure_future(anext(lines, None))]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if not tasks[1].done() or (found := tasks[1].result()) is None:
                    return
                event = orjson.loads(found)
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._hear(request.plural, event["object"])
                yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _hear(self, plural: str, found: dict) -> None:
        """Lists are passed over: what they tell is told again by whoever changes it."""
        versions = self.heard.get(found.get("metadata", {}).get("namespace", ""))
        if versions is not None:
            versions.append(Version(time.time(), plural, None, found))


class Oblivion(list):
    """A list that keeps nothing: hours of renewed Leases are of no interest."""

    def append(self, _item: object) -> None:
        """Forget it."""


class Replica:
    """One replica: started, killed, frozen and asked how it is. `starts` counts its lives.

    It runs what is in the `source` of the folder, with these words on its command line.
    """

    def __init__(self, name: str, line: Line, folder: Path, *words: str) -> None:
        self.name, self.line = name, line
        self.starts = 0
        self.frozen = False
        self.wanted = True
        self.ends: list[int] = []
        self.log = folder / f"{name}.log"
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        self._words = (f"--kubeconfig={line.proxy.kubeconfig(home)}", f"--lease-identity={name}", *words)
        self._source = folder / "source"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its process id, 0 if it does not live."""
        return self._process.pid if self._process and self._process.returncode is None else 0

    async def live(self) -> None:
        """Live, and again whenever a life ends, as a cluster would see to; for as long as it is wanted."""
        doors = ("--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0")
        while self.wanted:
            self.starts += 1
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "trainshed", "operator", *doors, *self._words),
                    stdout=log,
                    stderr=log,
                    env=os.environ | {"PYTHONPATH": str(self._source)},
                    preexec_fn=die_with_parent,
                )
            self.ends.append(await self._process.wait())
            self.frozen = False
            await asyncio.sleep(random.uniform(0.5, 3))

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it lives."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def freeze(self, seconds: float) -> None:
        """Stop it for so long, and let it go on."""
        pid = self.pid
        self.send(signal.SIGSTOP)
        self.frozen = True
        await asyncio.sleep(seconds)
        if self.pid == pid:
            self.send(signal.SIGCONT)
        self.frozen = False

    async def end(self) -> None:
        """Ask it to end for good, and wait."""
        self.wanted = False
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if self._process:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 20)
        self.send(signal.SIGKILL)

    def complaints(self) -> list[str]:
        """The lines of its log that no operator should write."""
        unwanted = ("Traceback", "never retrieved", "never awaited", "unhandled", "please report")
        return [one for one in self.log.read_text(errors="replace").splitlines() if any(w in one for w in unwanted)]


def copy_sources(folder: Path) -> str:
    """Put the operator as it was committed last into the `source` of an empty folder; which commit that is.

    Others may go on working on the sources while replicas begin new lives for hours.
    """
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    source.mkdir(parents=True)
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    packed = subprocess.run([*git, "archive", "HEAD", "operator"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", source, "--strip-components=1"], input=packed.stdout, check=True)
    return commit.stdout.strip()

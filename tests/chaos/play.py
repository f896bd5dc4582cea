"""One job, one operator and the porter between it and the API server, in a namespace of their own; and the auditor."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support.audit.ending import Ending
from testbed.control_plane import ControlPlane

from .api import Api
from .evidence import Evidence
from .history import Chronicle, Pages
from .kubelet import Kubelet
from .process_pool import Life, Nursery
from .proxy import Porter, Proxy
from .scene import Scene

#: Seconds without a change or a write for it to be quiet.
QUIET = 0.4
UNWANTED = ("Traceback", "never retrieved", "never awaited", "unhandled")
KILLED = -9


@dataclass
class Stage:
    """What all plays on one control plane share."""

    folder: Path
    api: Api
    proxy: Proxy
    chronicle: Chronicle
    kubelet: Kubelet
    nursery: Nursery
    kubeconfig: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    async def namespace(self) -> str:
        """A new namespace in which pods can be made."""
        name = f"f-{next(self.numbers):05d}-{self.mark}"  # there may have been other stages on this server
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        pages = self.chronicle.pages[name]
        await pages.until(lambda: "default" in pages.now["serviceaccounts"], 120)
        return name


@asynccontextmanager
async def stage(plane: ControlPlane, folder: Path) -> AsyncIterator[Stage]:
    """Everything that plays need, on a control plane that runs."""
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api(plane))
        chronicle = await stack.enter_async_context(Chronicle(api))
        proxy = await stack.enter_async_context(Proxy(api))
        nursery = await stack.enter_async_context(Nursery(folder))
        kubelet = Kubelet(api)
        chronicle.listeners.append(kubelet.hear)
        yield Stage(folder, api, proxy, chronicle, kubelet, nursery, proxy.kubeconfig(folder))


class Keeper:
    """Keeps one operator alive: when it dies it is begun anew, as a cluster would, unless it is told to `rest`."""

    def __init__(self, nursery: Nursery, words: tuple[str, ...], name: str, constants: Mapping[str, float]) -> None:
        self.lives: list[Life] = []
        self.rest = False
        self._begin = lambda: nursery.begin(name, *words, **constants)

    async def __aenter__(self) -> Self:
        self.lives.append(await self._begin())
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.kill()
        await asyncio.shield(self.lives[-1].over)

    @property
    def life(self) -> Life:
        """The latest one."""
        return self.lives[-1]

    def kill(self) -> None:
        """End the life that is, without a warning."""
        self.life.kill()

    def complaints(self) -> Iterator[str]:
        """The lines of its log that no operator should write, and ends that nobody asked for."""
        text = self.lives[0].log.read_text(errors="replace")
        yield from (line for line in text.splitlines() if any(word in line for word in UNWANTED))
        codes = [life.over.result() for life in self.lives[:-1]]
        yield from (f"it ended with {code}" for code in codes if code not in (KILLED, 0))

    async def _keep(self) -> None:
        while True:
            await asyncio.shield(self.life.over)
            while self.rest:
                await asyncio.sleep(0.02)
            self.lives.append(await self._begin())


class Play:
    """A job's life with an operator of its own. Its porter may be told what to do before it is entered, and later."""

    def __init__(self, stage: Stage, job: dict, *words: str, **constants: float) -> None:
        self.porter = Porter()
        self.counted: int | None = None
        self._stage = stage
        self._job = job
        self._words = words
        self._constants = constants
        self.mine: set[str] = set()

    async def __aenter__(self) -> Self:
        stage = self._stage
        self.namespace = await stage.namespace()
        stage.proxy.porters[self.namespace] = self.porter
        self.scene = Scene(self.namespace, stage.api, self.pages, stage.kubelet, self._job, self.mine)
        where = (f"--namespace={self.namespace}", f"--lease-namespace={self.namespace}")
        kind = f"--enable-scheme={self._job['kind']}"  # the lists and watches of the others only take time
        flags = (*where, kind, f"--kubeconfig={stage.kubeconfig}", "--no-leader-elect")
        doors = ("--health-probe-bind-address=0", "--metrics-bind-address=0")
        words = (*flags, *doors, *self._words)
        self.keeper = await Keeper(stage.nursery, words, self.namespace, self._constants).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.keeper.__aexit__(*_)
        with contextlib.suppress(KeyError):
            del self._stage.proxy.porters[self.namespace]

    @property
    def pages(self) -> Pages:
        """Everything that has happened in the namespace."""
        return self._stage.chronicle.pages[self.namespace]

    @property
    def evidence(self) -> Evidence:
        """The same, for an auditor."""
        return Evidence(self.pages.versions, self.porter.passed, self.mine)

    def kill(self) -> None:
        """End the operator without a warning."""
        self.keeper.kill()

    def quiet(self, seconds: float = QUIET) -> bool:
        """Whether nothing has happened for so long."""
        last = [one.at for one in (*self.pages.versions[-1:], *self.porter.passed[-1:])]
        return time.time() - max(last, default=0.0) > seconds

    async def rest(self, done: Callable[[], bool] = lambda: True, within: float = 20.0) -> None:
        """Wait until all is quiet and it is done, or for as long as it may take."""
        end = time.time() + within
        while time.time() < end and not (self.quiet() and done()):
            await asyncio.sleep(0.1)

    def violations(self, *, struck: float = 0.0, faults: int = 1) -> tuple[str, ...]:
        """Every promise that was broken, now that all is quiet; `struck` is when the last fault was over."""
        evidence = self.evidence
        auditor, changes = evidence.audit(), evidence.changes()
        outside = max((one.at for one in changes if one.actor != "operator"), default=0.0)
        alive = [uid for uid, job in auditor.ledger.jobs.items() if job.gone is None]
        ending = Ending(
            at=time.time(),
            lifted=max(outside, struck),
            quiet=changes[-1].at if changes else None,
            faults=faults,
            lives=len(self.keeper.lives),
            injected={} if self.counted is None else dict.fromkeys(alive, (self.counted, self.counted)),
        )
        told = (str(one).replace(self.namespace, "") for one in auditor.close(ending))
        return (*told, *(f"V10: {line}" for line in self.keeper.complaints()))

"""One job with an operator and a proxy route of its own, in a namespace of its own; and the auditor."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support.audit.final_state import RunEnd
from support.fake_kubelet import AsyncKubelet
from support.fault_proxy import FaultProxy, Route
from support.inbox import inbox
from support.user_client import AsyncClient
from testbed.control_plane import ControlPlane

from .evidence import Evidence
from .forked import preload
from .history import ClusterHistory, NamespaceHistory
from .job_client import JobClient
from .supervisor import ForkedOperator, Supervisor

#: Seconds without a change or a write after which a run is quiet.
QUIET = 0.4


@dataclass
class Environment:
    """The control plane and the processes that all runs share; `messages` are those to the webhooks in a folder."""

    folder: Path
    api: AsyncClient
    proxy: FaultProxy
    history: ClusterHistory
    kubelet: AsyncKubelet
    webhooks: Path
    messages: list[dict]
    numbers: Iterator[int] = field(default_factory=itertools.count)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    async def namespace(self) -> str:
        """Create a namespace, and wait until pods can be created in it."""
        name = f"f-{next(self.numbers):05d}-{self.mark}"  # other environments may have used this server
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        history = self.history.namespaces[name]
        await history.until(lambda: "default" in history.now["serviceaccounts"], 120)
        return name


@asynccontextmanager
async def environment(plane: ControlPlane, folder: Path) -> AsyncIterator[Environment]:
    """An environment on a control plane that is ready."""
    folder.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(preload)
    async with AsyncClient(plane.kubeconfig) as api, FaultProxy(api) as proxy:
        kubelet = AsyncKubelet(api)
        webhooks = folder / "webhooks"
        webhooks.mkdir(exist_ok=True)
        with inbox() as (url, messages):
            (webhooks / "team").write_text(url)
            async with ClusterHistory(api, kubelet.observe) as history:
                yield Environment(folder, api, proxy, history, kubelet, webhooks, messages)


class Run:
    """One job's run. The handlers of its route may be set before it is entered, and later."""

    def __init__(self, environment: Environment, job: dict, *flags: str, **constants: float) -> None:
        self.route = Route()
        self.counted: int | None = None
        self.killed = 0.0
        self.user_versions: set[str] = set()
        self._environment = environment
        self._job = job
        self._flags = flags
        self._constants = constants

    async def __aenter__(self) -> Self:
        env = self._environment
        self.namespace = await env.namespace()
        env.proxy.routes[self.namespace] = self.route
        self.client = JobClient(self.namespace, env.api, self.history, env.kubelet, self._job, self.user_versions)
        kind = f"--enable-scheme={self._job['kind']}"  # the lists and watches of the others only take time
        self.supervisor = await Supervisor(
            self.operator(self.namespace, kind, *self._flags, **self._constants)
        ).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.__aexit__(*_)
        self._environment.proxy.routes.pop(self.namespace, None)

    def operator(self, name: str, *flags: str, **constants: float) -> ForkedOperator:
        """An operator for the namespace, which was not started yet; its log is NAME.log."""
        folder = self._environment.folder
        kubeconfig = self._environment.proxy.kubeconfig(folder)
        within = (f"--namespace={self.namespace}", f"--lease-namespace={self.namespace}", "--no-leader-elect")
        return ForkedOperator(kubeconfig, folder, name, *within, *flags, **constants)

    @property
    def history(self) -> NamespaceHistory:
        """Everything that has happened in the namespace."""
        return self._environment.history.namespaces[self.namespace]

    @property
    def messages(self) -> list[str]:
        """The states of which a message was sent."""
        return [sent["state"] for sent in self._environment.messages if sent["namespace"] == self.namespace]

    @property
    def evidence(self) -> Evidence:
        """The same for the auditor."""
        return Evidence(self.history.versions, self.route.passed, self.user_versions)

    def kill(self) -> None:
        """Kill the operator."""
        self.killed = time.time()
        self.supervisor.operator.signal(signal.SIGKILL)

    def quiet(self, seconds: float = QUIET) -> bool:
        """Return whether nothing has changed for this number of seconds."""
        last = [one.at for one in (*self.history.versions[-1:], *self.route.passed[-1:])]
        return time.time() - max(last, default=0.0) > seconds

    async def rest(self, done: Callable[[], bool] = lambda: True, within: float = 20.0) -> None:
        """Wait until it is quiet and done, or the time is over."""
        end = time.time() + within
        while time.time() < end and not (self.quiet() and done()):
            await asyncio.sleep(0.1)

    def violations(self, *, struck: float = 0.0, faults: int = 1) -> tuple[str, ...]:
        """Every violated invariant, once it is quiet; `struck` is when the last fault was over."""
        evidence = self.evidence
        auditor, changes = evidence.audit(), evidence.changes()
        outside = max((one.at for one in changes if one.actor != "operator"), default=0.0)
        alive = [uid for uid, job in auditor.records.jobs.items() if job.gone is None]
        ending = RunEnd(
            at=time.time(),
            lifted=max(outside, struck),
            quiet=changes[-1].at if changes else None,
            faults=faults,
            lives=self.supervisor.starts,
            injected={} if self.counted is None else dict.fromkeys(alive, (self.counted, self.counted)),
        )
        found = (str(one).replace(self.namespace, "") for one in auditor.close(ending))
        return (*found, *(f"V10: {line}" for line in self.supervisor.complaints()))

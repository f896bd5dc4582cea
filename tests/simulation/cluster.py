"""A simulated cluster: the API server, the garbage collector, and replicas of the operator in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import random
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from support.audit.change import CREATED, DELETED, OPERATOR, USER, Change
from support.virtual_time import PROCESS, VirtualTimeLoop
from trainshed.api.framework import Framework
from trainshed.client.transport import Request
from trainshed.config import from_settings
from trainshed.controller import job_decisions, metrics
from trainshed.controller.manager import Operator
from trainshed.controller.observer import Background, Observers
from trainshed.frameworks import served
from trainshed.memory.garbage_collector import GarbageCollector
from trainshed.memory.server import Server
from trainshed.process import Clock

from .custom_resources import whole_server
from .server_events import observe_changes
from .transport import Network, ReliableNetwork, SimulatedTransport

Document = dict[str, Any]
#: The time of day, in seconds since 1970, at time 0 of the loop; a simulation begins at 1,000.
EPOCH = 1_767_225_600.0 - 1000
NAMESPACE = "ml"
#: Seconds after which the garbage collector reacts to a change.
COLLECTION_DELAY = 0.5
# Each start of a process reads its version from files, which took a twentieth of the time of a schedule.
metrics.version = job_decisions.version = functools.cache(version)


class Cluster:
    """Everything in one process; the same seed gives the same run. Call `close` at the end."""

    def __init__(
        self,
        seed: int = 0,
        replicas: int = 2,
        network: Network | None = None,
        kinds: tuple[Framework, ...] = (),
        mpi: str = "v1",
    ) -> None:
        random.seed(seed)  # the operator's jitter of retries
        self.loop = VirtualTimeLoop()
        self.server = whole_server(self.now, seed, mpi)
        for name in ("trainshed-system", NAMESPACE):
            self.server.make_namespace(name)
        self.operators = [
            OperatorProcess(self.loop, self.server, name, network or ReliableNetwork(), kinds or served(mpi, ()))
            for name in "abcdefgh"[:replicas]
        ]
        self._garbage_collector = GarbageCollector(self.server)
        self._collection_is_due = False
        self._context = contextvars.copy_context()
        observe_changes(self.server, self._collect_later)

    def now(self) -> float:
        """Return the server's time of day, in seconds since 1970."""
        return EPOCH + self.loop.time()

    def start(self) -> None:
        """Start all replicas."""
        for operator in self.operators:
            operator.start()

    def close(self) -> None:
        """End all processes; raises if there were errors that nothing awaited."""
        for operator in self.operators:
            operator.crash()
        self.loop.close()
        assert not self.loop.errors, self.loop.errors

    def later(self, seconds: float, call: Callable[..., object], *args: object) -> None:
        """Call this after some seconds, outside of any process."""
        self.loop.call_later(seconds, call, *args, context=self._context)

    def submit(self, job: Document) -> Document:
        """Create a job as a user."""
        return self.server.request(USER, "POST", jobs(job["kind"]), body=job)

    def job(self, kind: str, name: str) -> Document | None:
        """Return a job, or None."""
        return self.server.object(f"{jobs(kind)}/{name}")

    def _collect_later(self, change: Change) -> None:
        metadata, find = change.object["metadata"], self.server.store.find
        removed = change.verb == DELETED or "deletionTimestamp" in metadata
        owners = metadata.get("ownerReferences", ()) if change.verb == CREATED else ()
        if not self._collection_is_due and (removed or any(find(owner["uid"]) is None for owner in owners)):
            self._collection_is_due = True
            self.later(COLLECTION_DELAY, self._collect)

    def _collect(self) -> None:
        self._collection_is_due = False
        self._garbage_collector.run()


class OperatorProcess:
    """A replica of the operator, which is the production code with a simulated transport and a clock of its own.

    Its wall clock is ahead by `clock_skew` seconds, which may be changed at any time. `starts` counts its processes.
    """

    def __init__(
        self, loop: VirtualTimeLoop, server: Server, name: str, network: Network, frameworks: tuple[Framework, ...]
    ) -> None:
        self.name = name
        self.clock_skew = self._skew_at_start = 0.0
        self.starts = 0
        self.settings: dict[str, Any] = {}
        self.operator: Operator | None = None
        self.transport: SimulatedTransport | None = None
        #: Makes what hears of the decisions of a process, if that is wanted.
        self.listener: Callable[[], Background] | None = None
        self._loop = loop
        self._server = server
        self._network = network
        self._frameworks = frameworks
        self._process: object = None
        self._beginning: asyncio.Task[None] | None = None
        #: Called at the end of a process, and whether it has ended by itself.
        self.on_end: Callable[[bool], None] = lambda _clean: None
        self.on_freeze: Callable[[], None] = lambda: None

    @property
    def running(self) -> bool:
        """Whether there is a process; it may be frozen."""
        return self.operator is not None

    @property
    def process(self) -> str:
        """The name of the process that was started last."""
        return f"{self.name}-{self.starts}"

    @property
    def ahead(self) -> float:
        """By how many seconds the running process is ahead: a process reads the wall clock at its start."""
        return self._skew_at_start if self.running else 0.0

    def start(self) -> None:
        """Start a process; it runs when the loop does."""
        assert not self.running, f"{self.name} is running"
        self.starts += 1
        self._process = self.process
        self._skew_at_start = self.clock_skew
        self.transport = SimulatedTransport(self._loop, self._server, self._network, self.name, OPERATOR)
        self._in_process().run(self._begin)

    def crash(self, arrives: Callable[[Request], bool] = lambda _request: True) -> None:
        """Kill the process between any two of its steps; must not be called from a task.

        Of its requests in flight those reach the server for which `arrives` is true.
        """
        if self.transport is None:
            return
        self.transport.disconnect(arrives)
        self._loop.kill(self._process)
        self.on_end(False)
        self.operator = self.transport = None

    def stop(self) -> asyncio.Future[None]:
        """Ask the process to end, as SIGTERM does; the future is done when it has. SIGTERM kills one that begins."""
        if self._beginning is None or self._beginning.done():
            return self._loop.create_task(self._end(), context=self._in_process())
        self.crash()
        ended = self._loop.create_future()
        ended.set_result(None)
        return ended

    def freeze(self) -> None:
        """Stop the process, as SIGSTOP does."""
        self._loop.freeze(self._process)

    def thaw(self) -> None:
        """Continue the process, as SIGCONT does."""
        self._loop.thaw(self._process)

    def _in_process(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(PROCESS.set, self._process)
        return context

    def _begin(self) -> None:
        clock = Clock(lambda: EPOCH + self._loop.time() + self.clock_skew, self._loop.time)
        fixed = {"health": "", "metrics": "", "lease_namespace": "trainshed-system"}
        config = from_settings({**fixed, "lease_identity": f"{self.name}_{self.starts}", **self.settings})
        assert self.transport is not None
        self.operator = Operator(config, self._frameworks, self.transport, clock)
        # In virtual time the loop never lags; the monitor would be every second step of a run.
        self.operator._lag_monitor.run = asyncio.Event().wait  # type: ignore[method-assign,assignment]
        if self.listener:
            hears = self.listener()
            self.operator._beside = (*self.operator._beside, hears)
            for namespaced in self.operator._caches.all.values():
                namespaced.reconciler._metrics = Observers(namespaced.reconciler._metrics, hears)
        self._beginning = self._loop.create_task(self.operator.start())

    async def _end(self) -> None:
        if (ending := self.operator) is None:
            return
        await ending.stop()
        if self.operator is ending:  # it may have been asked twice, and another process have begun
            self.on_end(True)
            self.operator = self.transport = None


def jobs(kind: str) -> str:
    """Return the path of the jobs of a kind."""
    return f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/{kind.lower()}s"

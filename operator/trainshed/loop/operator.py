"""The operator put together: what runs beside what, in which order it starts, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.cluster import ClusterError
from trainshed.cluster.credentials import Credentials
from trainshed.cluster.gateway import CORE, Gateway
from trainshed.cluster.informer import DOCUMENTS, PODS, SERVICES, Audience, Informer, dependents
from trainshed.cluster.lanes import Pace
from trainshed.cluster.objects import JOB_NAME
from trainshed.cluster.wire import Path, Wire
from trainshed.settings import Settings

from .discovery import find_groups
from .doors import DEAF, Doors, Pulse
from .lease import Claim, Elector
from .metrics import Metrics, state
from .queue import Queue
from .reconcile import Reconciler
from .recorder import Recorder
from .store import Store
from .view import Key, Record, View
from .worker import Worker

#: Seconds that looks under way may take to end when we are told to, and the last Events to be written.
GRACE, FAREWELL = 10.0, 2.0

log = logging.getLogger(__name__)


class Documents:
    """Reads the documents of jobs into a store of records."""

    def __init__(self, store: Store[Record], record: Callable[[Document], Record]) -> None:
        self._store = store
        self._record = record

    def replaced(self, items: list[Document], version: str) -> None:
        """These are all jobs of a kind."""
        self._store.replaced([self._record(item) for item in items], version)

    def changed(self, item: Document) -> None:
        """A job is new or different."""
        self._store.changed(self._record(item))

    def removed(self, item: Document) -> None:
        """A job is gone."""
        self._store.removed(self._record(item))


class Operator:
    """Everything but kopf, which is the caller's: `wake` is for its events.

    `over` says that it is time to stop, `broken` that something of ours has ended that never should.
    """

    def __init__(self, settings: Settings, credentials: Credentials, frameworks: tuple[Framework, ...]) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._queue = Queue(self._metrics.waited)
        self._wire = Wire(credentials, self._metrics.requested)
        self._gateway = gateway = Gateway(self._wire, Pace(settings.qps, settings.burst))
        self._view = View(frameworks, settings.site, self._queue.add)
        self._recorder = Recorder(gateway, self._metrics.lost)
        reconciler = Reconciler(gateway, self._view, self._recorder, self._metrics)
        self._worker = Worker(self._queue, reconciler, self._metrics, self._may_act)
        claim = Claim(settings.lease_home, settings.lease_name, settings.identity)
        self._elector = Elector(gateway, claim, self._worker.break_off)
        self._informers = [*(self._jobs(framework) for framework in frameworks), *self._children()]
        self._pulse = Pulse()
        self._doors = Doors(self._pulse, self.problem, self._meters)
        self._tasks: list[asyncio.Task[None]] = []
        self.over, self.broken = asyncio.Event(), False

    def wake(self, key: Key) -> None:
        """A job may have changed."""
        self._queue.add(key)

    def problem(self) -> str:
        """Why we are not ready, or nothing."""
        now = asyncio.get_running_loop().time()
        for informer in self._informers:
            if not informer.synced.is_set():
                return f"{informer.plural} have not been listed yet"
            if now - informer.heard > DEAF:
                return f"the watch of {informer.plural} has been silent for {now - informer.heard:.0f} s"
        return ""

    async def start(self) -> None:
        """Open the doors and set everything going; jobs are looked at once all is listed.

        Raises `Missing` if there is a gang scheduler and the API server does not know its groups.
        """
        await self._doors.open(self._settings.health, self._settings.metrics)
        try:
            await find_groups(self._gateway, self._settings.gang_scheduler)
        except ClusterError:
            await self.stop()
            raise
        runs: list[Callable[[], Coroutine[Any, Any, None]]] = [self._work, self._pulse.run, self._recorder.run]
        runs += [informer.run for informer in self._informers]
        runs += [self._elector.run] if self._settings.leader_elect else []
        self._tasks = [asyncio.create_task(run(), name=run.__qualname__) for run in runs]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End in good order: no new looks, those under way finished, everything told, the Lease released."""
        for task in self._tasks[:1]:
            task.cancel()  # no new looks
        await self._worker.finish(GRACE)
        self._queue.close()
        try:
            async with asyncio.timeout(FAREWELL):
                await self._recorder.flush()
        except TimeoutError:
            log.warning("some events were not written in time")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._elector.release()
        await self._doors.close()
        await self._wire.close()

    async def _work(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()
        gc.collect()
        gc.freeze()  # what is known by now stays: looking through it for garbage again and again makes the loop late
        log.info("ready: %d jobs, %d pods", len(self._view.known()), len(self._view.pods.store.items))
        while True:
            if self._settings.leader_elect:
                await self._elector.held.wait()
            for key in self._view.known():
                self._queue.add(key)
            await self._worker.run()
            await asyncio.sleep(1)  # the Lease was lost just now

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of these ends by itself; better to begin anew than to go on deaf."""
        if task.cancelled():
            return
        log.error("%s has ended", task.get_name(), exc_info=task.exception())
        self.broken = True
        self.over.set()

    def _may_act(self) -> bool:
        return not self._settings.leader_elect or self._elector.holds()

    def _jobs(self, framework: Framework) -> Informer[Document]:
        path = Path(framework.prefix, framework.plural, self._settings.namespace)
        store = self._view.jobs[framework.kind]
        audience: Audience[Document] = Documents(store, lambda document: self._view.record(document, framework))
        return Informer(self._wire, path, DOCUMENTS, audience)

    def _children(self) -> tuple[Informer[Any], ...]:
        namespace = self._settings.namespace
        pods = Informer(self._wire, Path(CORE, "pods", namespace), PODS, self._view.pods.store, JOB_NAME)
        services = Informer(
            self._wire, Path(CORE, "services", namespace), SERVICES, self._view.services.store, JOB_NAME
        )
        others = (
            Informer(
                self._wire, Path(found.prefix, found.plural, namespace), dependents(found), children.store, JOB_NAME
            )
            for found, children in self._view.dependents.items()
        )
        return pods, services, *others

    def _meters(self) -> bytes:
        self._metrics.waiting.set(len(self._queue))
        self._metrics.lag.set(self._pulse.lag)
        self._metrics.leading.set(self._may_act())
        now = asyncio.get_running_loop().time()
        for informer in self._informers:
            self._metrics.ages.labels(informer.plural).set(now - informer.heard)
        states = Counter(
            (self._view.label(kind), state(record.status))
            for kind, store in self._view.jobs.items()
            for record in store.items.values()
        )
        self._metrics.states(states, tuple(self._view.label(kind) for kind in self._view.jobs))
        return self._metrics.text()

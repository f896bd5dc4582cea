"""What reconciles the jobs of a local run: the operator's controller on the server in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from trainshed.api.job import Document
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.transport import RestClient
from trainshed.controller.namespaces import Controller, Scope
from trainshed.controller.observer import Observer, Observers
from trainshed.memory.in_process import MemoryTransport
from trainshed.memory.server import Server
from trainshed.process import Clock

from . import tasks

if TYPE_CHECKING:
    from trainshed.progress.tracker import Progress

    from .run_endpoint import RunEndpoint


class LocalController:
    """Reconciles the jobs on a server until it is closed; their trainings report to the endpoint, if there is one.

    `decisions` hears what is decided.
    """

    def __init__(
        self, server: Server, scope: Scope, clock: Clock, endpoint: RunEndpoint | None, decisions: Observer
    ) -> None:
        address = endpoint.address if endpoint else ""
        defaults = msgspec.structs.replace(scope.job_defaults, progress_logs=True, progress_server=address)
        scope = msgspec.structs.replace(scope, job_defaults=defaults)
        client = ApiClient(RestClient(MemoryTransport(server)), TokenBucket())
        observer = Observers(tasks.LocalObserver(), decisions)
        self._controller = Controller(client, scope, observer, clock.now)
        self._controller.watch_pod_groups(())
        only = self._controller.caches.all[""]
        self._cache, self.watched = only.cache, (only.cache, only.reconciler.watchers)
        self._endpoint, self._now = endpoint, clock.now
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to reconcile, once trainings can report."""
        if self._endpoint:
            self._tasks.append(await self._endpoint.start(self._cache, self._controller.recorder, self._now))
        runs = {"controller": lambda: self._controller.run(_at_once), "Events": self._controller.recorder.run}
        runs |= {f"watch of {informer.what}": informer.run for informer in self._controller.informers}
        self._tasks += [tasks.start(run(), name) for name, run in runs.items()]

    def report(self, pod: Document, found: Progress) -> None:
        """Take what the output of a pod says of its training."""
        namespace, name, uid = (pod["metadata"][key] for key in ("namespace", "name", "uid"))
        if job := self._cache.job_of_pod(namespace, name, uid):
            self._cache.training.report(job.key, job.uid, found.status(self._now()), (name, uid))

    async def close(self) -> None:
        """Stop, and write the Events that are left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._controller.worker.give_up()
        self._controller.queue.clear()
        await self._controller.recorder.flush()


async def _at_once() -> None:
    """Return: there is one controller, which needs no Lease."""

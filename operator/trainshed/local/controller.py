"""The operator's controller on the in-memory API server: cache, work queue, worker, reconciler and Events."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from trainshed.api.actions import Action, Snapshot
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.status import Status
from trainshed.client import ApiError
from trainshed.client.decode import ServiceObject, service
from trainshed.controller.cache import Cache
from trainshed.controller.events import EventRecorder
from trainshed.controller.reconciler import Reconciler
from trainshed.controller.store import Store
from trainshed.controller.workqueue import Worker, WorkQueue

from . import tasks
from .cluster import POD, SERVICE, LocalCluster, Stored, dependent_of, pod_of


class NoMetrics:
    """Implements `trainshed.controller.observer.Observer`: a local run has no metrics, and no internal errors."""

    def observe_reconcile(self, seconds: float) -> None:
        """Do nothing."""

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Do nothing."""

    def forget(self, key: JobKey) -> None:
        """Do nothing."""

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Do nothing."""

    def count_action(self, snapshot: Snapshot, action: Action, *, success: bool) -> None:
        """Do nothing."""

    def count_error(self, error: ApiError) -> None:
        """Do nothing."""

    def count_internal_error(self) -> None:
        """End the run: an error would only be tried again."""
        if error := sys.exception():
            asyncio.get_running_loop().call_exception_handler({"message": "controller", "exception": error})

    def count_rejected_status(self, snapshot: Snapshot) -> None:
        """Do nothing."""


class LocalController:
    """Reconciles the jobs of a local cluster until it is closed."""

    def __init__(
        self,
        cluster: LocalCluster,
        frameworks: Iterable[Framework],
        job_defaults: JobDefaults,
        now: Callable[[], datetime],
    ) -> None:
        self._frameworks = {framework.kind: framework for framework in frameworks}
        self._queue = WorkQueue(lambda _seconds: None)
        self._cache = cache = Cache(tuple(self._frameworks.values()), job_defaults, self._queue.add)
        self._dependents = {
            resource.kind: (resource, children.store) for resource, children in cache.dependents.items()
        }
        self._recorder = EventRecorder(cluster, lambda: None, now)
        reconciler = Reconciler(cluster, cache, self._recorder, NoMetrics())
        self._worker = Worker(self._queue, {"": reconciler}, NoMetrics(), lambda: True, now)
        self._tasks: list[asyncio.Task[None]] = []
        cluster.listeners.append(self._on_change)

    def start(self) -> None:
        """Start to reconcile."""
        self._tasks = [tasks.start(self._worker.run(), "controller"), tasks.start(self._recorder.run(), "Events")]

    async def close(self) -> None:
        """Stop, and write the Events that are left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._worker.give_up()
        self._queue.clear()
        await self._recorder.flush()

    def _on_change(self, kind: str, before: Stored | None, after: Stored | None) -> None:
        """Pass a change to the cache, as an informer does."""
        found = after or before
        if found is None:
            return
        if kind in self._frameworks:
            framework = self._frameworks[kind]
            _deliver(self._cache.jobs[kind], self._cache.record(found, framework), gone=after is None)
        elif kind == POD:
            _deliver(self._cache.pods.store, pod_of(found), gone=after is None)
        elif kind == SERVICE:
            item = service(msgspec.convert(found, ServiceObject))
            _deliver(self._cache.services.store, item, gone=after is None)
        elif kind in self._dependents:
            resource, store = self._dependents[kind]
            _deliver(store, dependent_of(resource, found), gone=after is None)


def _deliver(store: Store[Any], item: object, *, gone: bool) -> None:
    if gone:
        store.removed(item)
    else:
        store.changed(item)

"""Carries out what was decided: many errands at a time, and what came of each into the view."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreateKeys,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    UpdateDependent,
)
from trainshed.api.snapshot import Snapshot
from trainshed.cluster import Cluster, ClusterError, Missing, NameTaken
from trainshed.cluster.lanes import carefully

from . import news, ssh
from .metrics import Metrics
from .recorder import Recorder
from .view import View

FIRST = (CreateDependent, UpdateDependent, CreateKeys)
CREATES = (CreatePod, CreateService)


class Errands:
    """Runs the actions of one look."""

    def __init__(self, cluster: Cluster, view: View, recorder: Recorder, metrics: Metrics) -> None:
        self._cluster = cluster
        self._view = view
        self._recorder = recorder
        self._metrics = metrics

    async def run(self, snapshot: Snapshot, actions: Iterable[Action]) -> ClusterError | None:
        """Do what can be done; the first error, if there was one. What the pods read is made before the pods."""
        wanted = tuple(actions)
        first = self._tasks(snapshot, (action for action in wanted if isinstance(action, FIRST)))
        makes = self._tasks(snapshot, (action for action in wanted if isinstance(action, CREATES)))
        others = (action for action in wanted if not isinstance(action, (*FIRST, *CREATES)))
        errors = await carefully(first)
        if not errors:
            made, gone = await asyncio.gather(carefully(makes), carefully(self._tasks(snapshot, others)))
            errors = made + gone
        return errors[0] if errors else None

    def _tasks(self, snapshot: Snapshot, actions: Iterable[Action]) -> list[Callable[[], Awaitable[None]]]:
        return [partial(self._run, snapshot, action) for action in actions]

    async def _run(self, snapshot: Snapshot, action: Action) -> None:
        words = news.words(snapshot, action)
        try:
            await self._do(snapshot, action)
        except ClusterError as error:
            self._metrics.done(snapshot, action, well=False)
            if words:
                self._recorder.tell(snapshot.job, words.failure(error))
            raise
        self._metrics.done(snapshot, action, well=True)
        if words:
            self._recorder.tell(snapshot.job, words.success)

    async def _do(self, snapshot: Snapshot, action: Action) -> None:
        namespace, pods, services = snapshot.job.namespace, self._view.pods.store, self._view.services.store
        match action:
            case CreatePod(body=body):
                pods.answered(await self._cluster.create_pod(namespace, body))
            case CreateService(body=body):
                services.answered(await self._cluster.create_service(namespace, body))
            case CreateKeys(body=body):
                await self._cluster.create_secret(namespace, {**body, "data": ssh.key_pair()})
            case CreateDependent() | UpdateDependent() | DeleteDependent():
                await self._do_to_dependent(namespace, action)
            case DeletePod(name=name, uid=uid, grace=grace):
                pod = await self._cluster.delete_pod(namespace, name, uid, grace)
                pods.answered(pod) if pod else pods.forgotten(uid)
            case DeleteService(name=name, uid=uid):
                service = await self._cluster.delete_service(namespace, name, uid)
                services.answered(service) if service else services.forgotten(uid)
            case DeleteJob(uid=uid):
                await self._cluster.delete_job(snapshot.framework, namespace, snapshot.job.name, uid)
                self._view.jobs[snapshot.job.kind].forgotten(uid)

    async def _do_to_dependent(
        self, namespace: str, action: CreateDependent | UpdateDependent | DeleteDependent
    ) -> None:
        resource, store = action.resource, self._view.dependents[action.resource].store
        match action:
            case CreateDependent(body=body, shared=shared):
                try:
                    store.answered(await self._cluster.create_dependent(resource, namespace, body))
                except NameTaken:
                    if not shared:
                        raise
            case UpdateDependent(name=name, patch=patch):
                try:
                    store.answered(await self._cluster.update_dependent(resource, namespace, name, patch))
                except Missing:
                    store.forgotten(patch["metadata"]["uid"])
            case DeleteDependent(name=name, uid=uid):
                left = await self._cluster.delete_dependent(resource, namespace, name, uid)
                store.answered(left) if left else store.forgotten(uid)

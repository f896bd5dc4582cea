"""Removes the job-tracking finalizer from pods whose job is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from trainshed.api.objects import Pod
from trainshed.client import ApiError, Client
from trainshed.client.finalizers import release_finalizer
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

from .cache import Cache

#: Seconds between two searches.
INTERVAL = 5.0

#: All kinds, and both versions of MPIJob: another operator may run kinds that this one does not.
ALL_FRAMEWORKS = (*FRAMEWORKS, MPI_VERSIONS["v2beta1"])

log = logging.getLogger(__name__)


class OrphanedFinalizers:
    """Removes the finalizer from cached pods whose job is gone, periodically, while `may_act` returns true."""

    def __init__(self, client: Client, cache: Cache, may_act: Callable[[], bool]) -> None:
        self._client = client
        self._cache = cache
        self._may_act = may_act
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Search periodically without end. A namespace in which a request takes long delays no other."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(INTERVAL)
                for namespace, pods in self._orphans().items() if self._may_act() else ():
                    if namespace not in self._busy:
                        self._busy.add(namespace)
                        task = group.create_task(self._release(pods))
                        task.add_done_callback(partial(self._done, namespace))

    async def reconcile(self) -> None:
        """Remove the finalizer from the pods whose job is gone; failures are retried in the next round."""
        for pods in self._orphans().values():
            await self._release(pods)

    def _orphans(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._cache.orphans():
            found.setdefault(pod.namespace, []).append(pod)
        return found

    def _done(self, namespace: str, _task: asyncio.Task[None]) -> None:
        self._busy.remove(namespace)

    async def _release(self, pods: Iterable[Pod]) -> None:
        """Release the pods of a namespace; one that another client changes all the time delays no other."""
        level = logging.WARNING
        for pod in pods:
            try:
                if await owner_is_gone(self._client, pod):
                    self._cache.pods.left(pod.uid, await release_finalizer(self._client, pod))
            except ApiError as error:
                text = "pod %s/%s: cannot remove the finalizer of a deleted job: %s"
                log.log(level, text, pod.namespace, pod.name, error)
                level = logging.DEBUG


async def owner_is_gone(client: Client, pod: Pod) -> bool:
    """Return whether the job that owns this pod no longer exists, read from the server; may raise an `ApiError`."""
    for framework in ALL_FRAMEWORKS:
        job = await client.read_job(framework, pod.namespace, pod.job)
        if job is not None and job["metadata"]["uid"] == pod.owner:
            return False
    return True

"""Tends what a job leaves behind: the job-tracking finalizer of pods, and the right of a launcher to enter pods.

And that finalizer of pods that no watch reports any more: nothing must wait for them without end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from trainshed.api import patches
from trainshed.api.objects import ROLES, Dependent, Pod
from trainshed.client import ApiError, Client, Forbidden, NotFound
from trainshed.client.finalizers import release_finalizer
from trainshed.frameworks import ALL_VERSIONS, MPI_VERSIONS
from trainshed.frameworks.mpi import launcher_name
from trainshed.plan import dependents

from .cache import Cache
from .left_pods import HiddenPod
from .undone_writes import CONTESTED, UndoneWrites

#: Seconds between two searches, and the most that an object waits which cannot be tended, or is changed back each time.
INTERVAL, LONGEST = 5.0, 300.0
#: Seconds for which a replica that does not lead remembers pods that may be hidden; the leader sees to them sooner.
#: It takes less until another replica leads.
STANDBY_MEMORY = 60.0

#: The kind whose jobs have Roles.
MPI = MPI_VERSIONS["v2beta1"].kind

#: What is tended.
Orphan: TypeAlias = Pod | HiddenPod | Dependent
#: What cannot be removed of each.
WORDS: Mapping[type, str] = MappingProxyType(
    {
        Pod: "the finalizer of a deleted job",
        HiddenPod: "the finalizer of a pod without its job label",
        Dependent: "the rights to pods of a deleted job",
    }
)

log = logging.getLogger(__name__)


class Orphans:
    """Removes the finalizer from cached pods whose job is gone, and the rights to pods from Roles without their owner.

    It searches periodically, while `may_act` returns true. Pods are changed only with `track_results`. A Role loses its
    owner when its job is deleted with its dependents orphaned, or when another client gives it to another job: no
    reconcile takes names of pods from it any more.

    A pod that has lost its job label loses the finalizer too, whatever becomes of its job: no event would say that it
    is deleted, and after a restart of the operator it would not be known.
    """

    def __init__(self, client: Client, cache: Cache, may_act: Callable[[], bool], *, track_results: bool) -> None:
        self._client = client
        self._cache = cache
        self._may_act = may_act
        self._track_results = track_results
        self._busy: set[str] = set()
        self._tries = UndoneWrites(longest=LONGEST)
        self._expiry = 0.0

    async def run(self) -> None:
        """Search periodically without end. A namespace in which a request takes long delays no other."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(INTERVAL)
                if not self._may_act():
                    self._stand_by(asyncio.get_running_loop().time())
                    continue
                for namespace, found in self._by_namespace().items():
                    if namespace not in self._busy:
                        self._busy.add(namespace)
                        task = group.create_task(self._tend(found))
                        task.add_done_callback(partial(self._done, namespace))

    async def reconcile(self) -> None:
        """Tend all objects whose job is gone; failures are retried in the next round."""
        for found in self._by_namespace().values():
            await self._tend(found)

    def _stand_by(self, now: float) -> None:
        if now >= self._expiry:
            self._cache.left_pods.hidden.forget_old()
            self._expiry = now + STANDBY_MEMORY

    def _by_namespace(self) -> dict[str, list[Orphan]]:
        found: dict[str, list[Orphan]] = {}
        for orphan in (*self._roles(), *(self._pods() if self._track_results else ())):
            found.setdefault(orphan.namespace, []).append(orphan)
        return found

    def _pods(self) -> tuple[Pod | HiddenPod, ...]:
        return *self._cache.orphans(), *self._cache.left_pods.hidden.all()

    def _roles(self) -> Iterator[Dependent]:
        roles = self._cache.dependents.get(ROLES)
        left = (role for role in roles.store.items.values() if self._is_left(role)) if roles else ()
        return (role for role in left if not role.deleting and dependents.without_pods(role))

    def _is_left(self, role: Dependent) -> bool:
        """Return whether the job that owns a Role, if there is one, is not that for which it was made."""
        owner = self._cache.owner(role)
        return not role.owner or (owner is not None and (owner.kind, launcher_name(owner.name)) != (MPI, role.name))

    def _done(self, namespace: str, _task: asyncio.Task[None]) -> None:
        self._busy.remove(namespace)

    async def _tend(self, found: Iterable[Orphan]) -> None:
        """Tend the objects of a namespace; one that another client changes all the time delays no other.

        Each further try for an object waits longer. Of the first ones that fail one is logged as a warning.
        """
        clock, level = asyncio.get_running_loop().time, logging.WARNING
        for orphan in found:
            target = orphan.namespace, orphan.uid
            if self._tries.wait(target, None, clock()) > 0:
                continue
            is_first = not self._tries.times(target, None, clock())
            self._tries.wrote(target, None, clock())
            try:
                await self._remove(orphan)
            except ApiError as error:
                is_news = is_first and not (isinstance(error, Forbidden) and self._is_of_other_operator(orphan))
                text, what = "%s/%s: cannot remove %s: %s", WORDS[type(orphan)]
                log.log(level if is_news else logging.DEBUG, text, orphan.namespace, orphan.name, what, error)
                level = logging.DEBUG if is_news else level

    def _is_of_other_operator(self, orphan: Orphan) -> bool:
        return isinstance(orphan, Pod) and orphan.owner_kind not in self._cache.jobs

    async def _remove(self, orphan: Orphan) -> None:
        match orphan:
            case Pod():
                await self._release(orphan)
            case HiddenPod():
                await self._release_hidden(orphan)
            case Dependent():
                await self._withdraw(orphan)

    async def _release_hidden(self, hidden: HiddenPod) -> None:
        """Release the pod if it is there still, and has neither lost its finalizer nor got its label back."""
        pod = await self._client.read_pod(hidden.namespace, hidden.name)
        if pod is not None and pod.uid == hidden.uid and pod.has_finalizer and not pod.job:
            await release_finalizer(self._client, pod)
        self._cache.left_pods.hidden.discard(hidden.uid)

    async def _release(self, pod: Pod) -> None:
        if await owner_is_gone(self._client, pod):
            self._cache.pods.on_delete_response(pod.uid, await release_finalizer(self._client, pod))

    async def _withdraw(self, role: Dependent) -> None:
        store, patch = self._cache.dependents[ROLES].store, dependents.without_pods(role) or {}
        if self._tries.times((role.namespace, role.uid), None, asyncio.get_running_loop().time()) > CONTESTED:
            patch = patches.without_version(patch)
        try:
            store.on_response(await self._client.update_dependent(ROLES, role.namespace, role.name, patch))
        except NotFound:
            store.forgotten(role.uid)


async def owner_is_gone(client: Client, pod: Pod) -> bool:
    """Return whether the job that owns this pod no longer exists, read from the server; may raise an `ApiError`.

    Only the kind that the owner reference names is read: others may not be served, or the operator may not read them.
    It is one of all versions, because another operator may run kinds that this one does not.
    """
    for framework in (found for found in ALL_VERSIONS.values() if found.kind == pod.owner_kind):
        job = await client.read_job(framework, pod.namespace, pod.owner_name)
        if job is not None and job["metadata"]["uid"] == pod.owner:
            return False
    return True

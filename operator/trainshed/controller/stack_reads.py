"""Reads the stacks of the ranks of a job that is Stalled: once for each hang, of few jobs at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from weakref import WeakValueDictionary

from msgspec.structs import replace

from trainshed.api.actions import Snapshot
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Job
from trainshed.api.objects import Pod
from trainshed.api.signs import StackGroup, Stacks
from trainshed.api.status import ConditionType
from trainshed.plan.messages import standstill
from trainshed.progress.stack_frames import StacksError

from .cache import Cache
from .training_pods import with_ranks

#: How many jobs are read at a time, and of one namespace, so that others have room; and the characters of an error.
AT_A_TIME, OF_NAMESPACE, LONGEST_ERROR = 8, 4, 200
#: Reads the stacks of the ranks in these pods of a job; raises `StacksError`.
Read = Callable[[Job, tuple[Pod, ...]], Awaitable[tuple[StackGroup, ...]]]


class StackReads:
    """Where the ranks are becomes part of the snapshots of the job's cache, and the job is woken.

    `asks` says of which jobs the stacks can be had by `read`.
    """

    def __init__(self, read: Read, asks: Callable[[Job], bool]) -> None:
        self._read, self._asks = read, asks
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def watch(self, cache: Cache, watchers: list[Callable[[Snapshot], None]]) -> None:
        """Look at each job of the cache that is reconciled, and let the planner wait for the answers."""
        cache.training.asks_for_stacks = self._asks
        watchers.append(partial(self.saw, cache))

    def saw(self, cache: Cache, snapshot: Snapshot) -> None:
        """Read the stacks of a job that has turned Stalled, unless they are stored or being read."""
        job, known = snapshot.job, snapshot.status.condition(ConditionType.STALLED)
        if known is None or not self._asks(job):
            cache.training.stacks.pop(job.uid, None)
            return
        found = cache.training.stacks.get(job.uid)
        is_read = standstill.is_diagnosed(known) or (found is not None and found.hang == known.changed)
        if is_read or job.uid in self._tasks:
            return
        if pods := with_ranks(job, snapshot.framework, snapshot.pods):
            task = asyncio.create_task(self._keep(cache, job, pods, Stacks(known.changed)))
            self._tasks[job.uid] = task
            task.add_done_callback(lambda _task: self._tasks.pop(job.uid))

    def stop(self) -> None:
        """Read nothing any more: another replica leads, or the process ends."""
        for task in self._tasks.values():
            task.cancel()

    async def _keep(self, cache: Cache, job: Job, pods: tuple[Pod, ...], unread: Stacks) -> None:
        room = self._rooms.setdefault(job.namespace, asyncio.Semaphore(OF_NAMESPACE))
        async with room, self._room:
            if not _still(cache, job, unread.hang):
                return
            try:
                found = replace(unread, groups=await self._read(job, pods))
            except StacksError as error:
                found = replace(unread, error=one_line(str(error), LONGEST_ERROR))
        if _still(cache, job, unread.hang):
            cache.training.stacks[job.uid] = found
            cache.wake(job.key)


def _still(cache: Cache, job: Job, since: datetime) -> bool:
    """Return whether the job is in the same hang: it may have ended or gone meanwhile."""
    record = cache.jobs[job.kind].items.get(job.uid)
    known = record.status.condition(ConditionType.STALLED) if record else None
    return known is not None and known.changed == since

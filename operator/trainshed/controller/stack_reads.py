"""Asks PyTorch's debug server what the ranks of a job do that is Stalled: once for each hang, few jobs at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from trainshed.api.actions import Snapshot
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Job
from trainshed.api.objects import Pod
from trainshed.api.signs import RankAt, StackGroup, Stacks
from trainshed.api.status import ConditionType
from trainshed.client import ApiError
from trainshed.plan.messages import standstill
from trainshed.process import job_fields
from trainshed.progress.debug_server import StacksError, StacksQuery

from .cache import Cache
from .ras_polls import Forward
from .training_pods import with_ranks

#: How many jobs are asked at a time, the seconds that all pods of one may take (the server waits 60 s for a rank that
#: does not answer), the pods that are tried until rank 0 is found, and the characters of an error.
AT_A_TIME, PATIENCE, MOST_PODS, LONGEST_ERROR = 4, 75.0, 8, 200

log = logging.getLogger(__name__)


class StackReads:
    """Where the ranks are becomes part of the snapshots of the job's cache, and the job is woken."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_A_TIME)

    def watch(self, cache: Cache, watchers: list[Callable[[Snapshot], None]]) -> None:
        """Look at each job of the cache that is reconciled, and let the planner wait for the answers."""
        cache.training.asks_for_stacks = True
        watchers.append(partial(self.saw, cache))

    def saw(self, cache: Cache, snapshot: Snapshot) -> None:
        """Ask for the stacks of a job that has turned Stalled, unless they are stored or asked for."""
        job, known = snapshot.job, snapshot.status.condition(ConditionType.STALLED)
        if job.debug_port is None or known is None:
            cache.training.stacks.pop(job.uid, None)
            return
        found = cache.training.stacks.get(job.uid)
        is_read = standstill.is_diagnosed(known) or (found is not None and found.hang == known.changed)
        if is_read or job.uid in self._tasks:
            return
        if pods := with_ranks(job, snapshot.framework, snapshot.pods)[:MOST_PODS]:
            task = asyncio.create_task(self._ask(cache, job, pods, Stacks(known.changed)))
            self._tasks[job.uid] = task
            task.add_done_callback(lambda _task: self._tasks.pop(job.uid))

    def stop(self) -> None:
        """Ask nothing any more: another replica leads, or the process ends."""
        for task in self._tasks.values():
            task.cancel()

    async def _ask(self, cache: Cache, job: Job, pods: tuple[Pod, ...], unread: Stacks) -> None:
        """Ask the pods until one answers, which is that of rank 0; keep the first error if none does."""
        async with self._room:
            if not _still(cache, job, unread.hang):
                return
            end, errors, found = _clock() + PATIENCE, list[str](), unread
            for pod in pods:
                try:
                    groups = await self._read(pod, job.debug_port or 0, end - _clock())
                except (ApiError, StacksError) as error:
                    log.debug("%s: %s", job.key, error, extra=job_fields(job.key))
                    errors.append(one_line(str(error), LONGEST_ERROR))
                    found = replace(unread, error=errors[0])
                else:
                    found = replace(unread, groups=_placed(groups, cache.pods.of((job.namespace, job.uid))))
                    break
        cache.training.stacks[job.uid] = found
        cache.wake(job.key)

    async def _read(self, pod: Pod, port: int, seconds: float) -> tuple[StackGroup, ...]:
        query = StacksQuery()
        await self._forward.converse((pod.namespace, pod.name), port, query, max(seconds, 0.0))
        return await asyncio.to_thread(query.answer)


def _still(cache: Cache, job: Job, since: datetime) -> bool:
    """Return whether the job is in the same hang: it may have waited for others to be asked."""
    record = cache.jobs[job.kind].items.get(job.uid)
    known = record.status.condition(ConditionType.STALLED) if record else None
    return known is not None and known.changed == since


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _placed(groups: Iterable[StackGroup], pods: Iterable[Pod]) -> tuple[StackGroup, ...]:
    """Return the groups with the pods of their ranks, whose names are those of their hosts, and with the nodes."""
    nodes = {pod.name: pod.node for pod in pods}
    return tuple(replace(one, ranks=tuple(_at(rank, nodes) for rank in one.ranks)) for one in groups)


def _at(rank: RankAt, nodes: dict[str, str]) -> RankAt:
    name = rank.host.partition(".")[0]
    return replace(rank, pod=name, node=nodes[name]) if name in nodes else rank

"""Asks PyTorch's debug server in the pods of a job where its ranks are: the server of rank 0 knows all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from msgspec.structs import replace

from trainshed.api.job import Job
from trainshed.api.objects import Pod
from trainshed.api.signs import RankAt, StackGroup
from trainshed.client import ApiError
from trainshed.process import job_fields
from trainshed.progress.debug_server import StacksQuery
from trainshed.progress.stack_frames import StacksError

from .ras_polls import Forward

#: The seconds that all pods of a job may take, as the server waits 60 s for a rank that does not answer; and how many
#: are tried until rank 0 is found.
PATIENCE, MOST_PODS = 75.0, 8

log = logging.getLogger(__name__)


class DebugServers:
    """Asks the ports that jobs name."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._reading = asyncio.Semaphore(1)

    async def read(self, job: Job, pods: tuple[Pod, ...]) -> tuple[StackGroup, ...]:
        """Return what the first pod that answers says; if none does, raise `StacksError` because of the first one."""
        end, first = _clock() + PATIENCE, StacksError("no pod runs")
        for number, pod in enumerate(pods[:MOST_PODS]):
            query = StacksQuery(len(pods))
            try:
                where = (pod.namespace, pod.name)
                await self._forward.converse(where, job.debug_port or 0, query, max(end - _clock(), 0.0))
                async with self._reading:  # a hostile page takes seconds of a processor
                    return _placed(await asyncio.to_thread(query.answer), pods)
            except (ApiError, StacksError) as error:
                log.debug("%s: %s", job.key, error, extra=job_fields(job.key))
                first = first if number else StacksError(str(error))
        raise first


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _placed(groups: Iterable[StackGroup], pods: Iterable[Pod]) -> tuple[StackGroup, ...]:
    """Return the groups with the pods of their ranks, whose names are those of their hosts, and with the nodes."""
    nodes = {pod.name: pod.node for pod in pods}
    return tuple(replace(one, ranks=tuple(_at(rank, nodes) for rank in one.ranks)) for one in groups)


def _at(rank: RankAt, nodes: dict[str, str]) -> RankAt:
    name = rank.host.partition(".")[0]
    return replace(rank, pod=name, node=nodes[name]) if name in nodes else rank

"""Carries out the creations of a plan: in which order, and what is not created if pods are refused or withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trainshed.client import ApiError, NameConflict
from trainshed.client.flow_control import DEFINITE, run_concurrently, run_with_slow_start
from trainshed.client.withdrawal import is_withdrawn

from .deletions import Task


async def create(
    dependents: Sequence[Task], services: Sequence[Task], pods: Sequence[Task], running: int | None
) -> list[ApiError]:
    """Create the dependents, and then the Services and pods; return the errors.

    If the first pod is refused, at most one Service is created, and none if one was refused the last time: then
    `running` is None. If not, as many pods are created at once as are `running`, so that the slow start of a large job
    is not one of each part.
    """
    errors = await run_with_slow_start(dependents)
    if errors or is_withdrawn():
        return errors
    known = running or 0
    if not (services and pods):
        return await run_with_slow_start(services or pods, known=known)
    accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def first_pod() -> None:
        try:
            await pods[0]()
        except ApiError as error:
            accepted.set_result(not isinstance(error, DEFINITE) or isinstance(error, NameConflict))
            raise
        accepted.set_result(True)

    async def create_services() -> list[ApiError]:
        wanted = running is not None or await accepted
        return await run_with_slow_start(services, known=known, proceed=accepted) if wanted else []

    async def create_pods() -> list[ApiError]:
        try:
            return await run_with_slow_start([first_pod, *pods[1:]], known=known)
        finally:
            if not accepted.done():  # withdrawn before the first
                accepted.set_result(False)

    return [error for found in await run_concurrently([create_services, create_pods]) for error in found]

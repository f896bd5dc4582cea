"""Check at startup that the API server serves the PodGroups of the configured gang scheduler."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from trainshed.api import framework
from trainshed.api.objects import Resource
from trainshed.client import NotFound, TooManyRequests, Unavailable

#: Seconds between tries while the API server does not respond.
PAUSE = 2.0

log = logging.getLogger(__name__)


class Guide(Protocol):
    """Discovers which kinds are served; may raise any `trainshed.client.ApiError`."""

    async def serves(self, resource: Resource) -> bool:
        """Return whether the API server serves this kind."""
        ...


async def find_groups(guide: Guide, scheduler: str) -> None:
    """Return once the API server is known to serve the PodGroups of this scheduler; raise `Missing` if it does not.

    Retries without end while the API server does not respond.
    """
    for kind in framework.gang_resources(scheduler):
        if not await _served(guide, kind):
            what = f"the API server does not serve {kind.kind} in {kind.api_version}"
            raise NotFound(f"--gang-scheduler-name={scheduler}: {what}; install its CRD first or omit the flag")


async def _served(guide: Guide, kind: Resource) -> bool:
    logged = False
    while True:
        try:
            return await guide.serves(kind)
        except (Unavailable, TooManyRequests) as error:
            log.log(logging.DEBUG if logged else logging.WARNING, "cannot discover %s: %s", kind.api_version, error)
            logged = True
        await asyncio.sleep(PAUSE)

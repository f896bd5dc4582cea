"""What the API server has to know before we begin: the groups of the gang scheduler that we were told of."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from trainshed.api import gang
from trainshed.api.dependent import Resource
from trainshed.cluster import Missing, Throttled, Unavailable

#: Seconds between questions, while nobody answers.
PAUSE = 2.0

log = logging.getLogger(__name__)


class Guide(Protocol):
    """Knows which kinds are served; may raise any `trainshed.cluster.ClusterError`."""

    async def serves(self, resource: Resource) -> bool:
        """Whether the server knows this kind of object."""
        ...


async def find_groups(guide: Guide, scheduler: str) -> None:
    """Return once the PodGroups of this scheduler are known to be served; raises `Missing` if they are not.

    An API server that does not answer is asked again, for as long as that lasts.
    """
    for kind in gang.resources(scheduler):
        if not await _served(guide, kind):
            what = f"the API server does not serve {kind.kind} in {kind.api_version}"
            raise Missing(f"--gang-scheduler-name={scheduler}: {what}; install its CRD first or omit the flag")


async def _served(guide: Guide, kind: Resource) -> bool:
    told = False
    while True:
        try:
            return await guide.serves(kind)
        except (Unavailable, Throttled) as error:
            log.log(logging.DEBUG if told else logging.WARNING, "cannot discover %s: %s", kind.api_version, error)
            told = True
        await asyncio.sleep(PAUSE)

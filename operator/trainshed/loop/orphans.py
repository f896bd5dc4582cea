"""Lets go of pods that are held for a job that is gone: nobody will look at that one any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from trainshed.cluster import Cluster, ClusterError
from trainshed.cluster.holds import bereaved, let_go

from .view import View

#: Seconds between two looks at all pods.
EVERY = 5.0

log = logging.getLogger(__name__)


class Orphans:
    """Looks for such pods while `may_act` says that it is for us to do something about them."""

    def __init__(self, cluster: Cluster, view: View, may_act: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._view = view
        self._may_act = may_act

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            if self._may_act():
                await self.look()

    async def look(self) -> None:
        """Let go of whom nobody waits for; what cannot be done now is tried at the next look."""
        for pod in self._view.orphans():
            try:
                if await bereaved(self._cluster, pod):
                    self._view.pods.left(pod.uid, await let_go(self._cluster, pod))
            except ClusterError as error:
                log.warning(
                    "pod %s/%s: cannot remove the finalizer of a deleted job: %s", pod.namespace, pod.name, error
                )
                return

"""Removes the finalizer from pods whose job is gone; no reconcile would ever do it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from trainshed.cluster import Cluster, ClusterError
from trainshed.cluster.holds import bereaved, let_go

from .view import View

#: Seconds between two searches.
EVERY = 5.0

log = logging.getLogger(__name__)


class Orphans:
    """Searches the cache for such pods periodically while `may_act` returns true."""

    def __init__(self, cluster: Cluster, view: View, may_act: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._view = view
        self._may_act = may_act

    async def run(self) -> None:
        """Search periodically without end."""
        while True:
            await asyncio.sleep(EVERY)
            if self._may_act():
                await self.look()

    async def look(self) -> None:
        """Remove the finalizer from the pods whose job is gone; failures are retried in the next round."""
        for pod in self._view.orphans():
            try:
                if await bereaved(self._cluster, pod):
                    self._view.pods.left(pod.uid, await let_go(self._cluster, pod))
            except ClusterError as error:
                log.warning(
                    "pod %s/%s: cannot remove the finalizer of a deleted job: %s", pod.namespace, pod.name, error
                )
                return

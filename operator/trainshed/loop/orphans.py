"""Removes the finalizer from pods whose job is gone; no reconcile would ever do it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from trainshed.client import ApiError, Client
from trainshed.client.client import release_finalizer
from trainshed.controller.finalizers import owner_is_gone

from .view import View

#: Seconds between two searches.
EVERY = 5.0

log = logging.getLogger(__name__)


class Orphans:
    """Searches the cache for such pods periodically while `may_act` returns true."""

    def __init__(self, cluster: Client, view: View, may_act: Callable[[], bool]) -> None:
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
                if await owner_is_gone(self._cluster, pod):
                    self._view.pods.left(pod.uid, await release_finalizer(self._cluster, pod))
            except ApiError as error:
                log.warning(
                    "pod %s/%s: cannot remove the finalizer of a deleted job: %s", pod.namespace, pod.name, error
                )
                return

"""Follows the pods of a namespace, and counts those that have no scheduling gate and have not ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

from .background import in_background
from .user_client import AsyncClient, UserClient, where

POD_ENDED = ("Succeeded", "Failed")


class LivePods:
    """Counts in the background: `created` are the names of all pods in order, `peak` is the most at one time."""

    def __init__(self, user: UserClient) -> None:
        self.user = user
        self.created: list[str] = []
        self.peak = 0
        self._pods: dict[str, dict] = {}
        self._alive: set[str] = set()
        self._work = in_background(self._at_work())

    def __enter__(self) -> Self:
        self._work.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._work.__exit__(None, None, None)

    @contextlib.asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        client = AsyncClient(self.user.kubeconfig)
        self._following = asyncio.create_task(self._follow(client))
        yield
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await client.session.close()

    async def _follow(self, client: AsyncClient) -> None:
        while True:
            async for verb, pod in client.changes(where("pods", self.user.namespace)):
                name = pod["metadata"]["name"]
                before = self._pods.pop(name, None)
                if verb != "DELETED":
                    self._pods[name] = pod
                self._observe(name, before, self._pods.get(name))

    def _observe(self, name: str, before: dict | None, after: dict | None) -> None:
        if after and is_new(before, after):
            self.created.append(name)
        if after and after["status"].get("phase") not in POD_ENDED and not is_gated(after):
            self._alive.add(name)
        else:
            self._alive.discard(name)
        self.peak = max(self.peak, len(self._alive))


def is_new(before: dict | None, pod: dict) -> bool:
    """Return whether a pod is not the one that was there before."""
    return before is None or before["metadata"]["uid"] != pod["metadata"]["uid"]


def is_gated(pod: dict) -> bool:
    """Return whether a pod has a scheduling gate."""
    return bool(pod["spec"].get("schedulingGates"))

"""Counts the pods of a namespace that have no scheduling gate and have not ended, as a watch shows them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Self

from .background import InBackground
from .user_client import AsyncClient, where

POD_ENDED = ("Succeeded", "Failed")


class LivePods(InBackground):
    """`peak` is the largest number of pods that had not ended at one time, `history` all numbers with their times.

    `created` has the name of each pod that was seen, by its uid, and `specs` the last spec by the name.
    """

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self.alive: dict[str, str] = {}
        self.peak = 0
        self.history: list[tuple[float, int]] = []
        self.created: dict[str, str] = {}
        self.specs: dict[str, dict] = {}

    async def __aenter__(self) -> Self:
        self._client = AsyncClient(self._kubeconfig)
        path = where("pods", self._namespace)
        version = (await self._client.call("GET", path))["metadata"]["resourceVersion"]
        self._watching = asyncio.create_task(self._watch(path, version))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        await self._client.session.close()

    async def _watch(self, path: str, version: str) -> None:
        async for verb, pod in self._client.changes(path, version):
            self._observe(verb, pod)

    def _observe(self, verb: str, pod: dict) -> None:
        uid = pod["metadata"]["uid"]
        ended = verb == "DELETED" or pod["status"].get("phase") in POD_ENDED
        if ended or pod["spec"].get("schedulingGates"):
            self.alive.pop(uid, None)
        else:
            self.alive[uid] = pod["metadata"]["name"]
        self.peak = max(self.peak, len(self.alive))
        self.history.append((time.time(), len(self.alive)))
        self.created[uid] = pod["metadata"]["name"]
        self.specs[pod["metadata"]["name"]] = pod["spec"]

"""Counts the pods of a namespace that have no scheduling gate and have not ended, as a watch shows them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import aiohttp

from .background import in_background
from .user_client import AsyncClient, where

POD_ENDED = ("Succeeded", "Failed")


class LivePods:
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

    @classmethod
    def watch(cls, kubeconfig: Path, namespace: str) -> AbstractContextManager[Self]:
        """Watch in the background."""
        return in_background(cls(kubeconfig, namespace))

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
        while True:
            query = {"watch": "1", "resourceVersion": version}
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async for line in self._client.lines(path, query):
                    event = json.loads(line)
                    version = event["object"]["metadata"].get("resourceVersion", version)
                    self._observe(event["type"], event["object"])

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

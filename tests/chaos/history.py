"""Every version of every object that may matter to a job, by namespace, from watches."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import aiohttp

from support.audit import api_fields
from support.jobs import KINDS
from support.user_client import AsyncClient, Refused, where

PLURALS = (
    *(f"{kind.lower()}s" for kind in KINDS),
    *("pods", "services", "configmaps", "serviceaccounts", "roles", "rolebindings", "horizontalpodautoscalers"),
)


@dataclass(frozen=True, slots=True)
class Version:
    """A change of an object, seen `at` a time; `after` is None when it was deleted, `before` when it was created."""

    at: float
    plural: str
    before: dict | None
    after: dict | None

    @property
    def name(self) -> str:
        """The name of the object."""
        return (self.after or self.before)["metadata"]["name"]


@dataclass
class NamespaceHistory:
    """All versions of one namespace, and its objects `now` by plural and name."""

    versions: list[Version] = field(default_factory=list)
    now: dict[str, dict[str, dict]] = field(default_factory=lambda: defaultdict(dict))
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def is_true(self, plural: str, name: str, condition: str) -> bool:
        """Return whether a condition of a job is true."""
        return api_fields.condition(self.now[plural].get(name) or {}, condition)

    async def until(self, question: Callable[[], object], within: float) -> object:
        """The first true answer, asked again after each change; raises TimeoutError."""
        async with asyncio.timeout(within):
            while not (answer := question()):
                self.changed.clear()
                await self.changed.wait()
            return answer


class ClusterHistory:
    """Watches a whole cluster; `observe` gets plural, before and after of each change."""

    def __init__(self, api: AsyncClient, observe: Callable[[str, dict | None, dict | None], None]) -> None:
        self.namespaces: dict[str, NamespaceHistory] = defaultdict(NamespaceHistory)
        self._observe = observe
        self._api = api
        self._tasks: list[asyncio.Task] = []

    async def __aenter__(self) -> Self:
        versions = await asyncio.gather(*(self._list(plural) for plural in PLURALS))
        self._tasks = [
            asyncio.create_task(self._follow(plural, version))
            for plural, version in zip(PLURALS, versions, strict=True)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _list(self, plural: str) -> str:
        found = await self._api.call("GET", where(plural))
        there: dict[tuple[str, str], dict] = {}
        for item in found["items"]:
            meta = item["metadata"]
            there[meta["namespace"], meta["name"]] = item
        for namespace, history in list(self.namespaces.items()):
            for name in [name for name in history.now[plural] if (namespace, name) not in there]:
                self._take(plural, history.now[plural][name], gone=True)
        for item in there.values():
            self._take(plural, item)
        return found["metadata"]["resourceVersion"]

    async def _follow(self, plural: str, version: str) -> None:
        while True:
            async for verb, item in self._api.changes(where(plural), version):
                self._take(plural, item, gone=verb == "DELETED")
            version = ""  # the server has expired it: a list shows what is gone
            while not version:
                await asyncio.sleep(0.2)
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, Refused):
                    version = await self._list(plural)

    def _take(self, plural: str, item: dict, *, gone: bool = False) -> None:
        meta = item["metadata"]
        history = self.namespaces[meta["namespace"]]
        known = history.now[plural]
        before = known.get(meta["name"])
        if not gone and before and before["metadata"]["resourceVersion"] == meta["resourceVersion"]:
            return
        if gone:
            known.pop(meta["name"], None)
            version = Version(time.time(), plural, item, None)
        else:
            known[meta["name"]] = item
            version = Version(time.time(), plural, before, item)
        history.versions.append(version)
        history.changed.set()
        self._observe(plural, version.before, version.after)

"""Every version of every object that may matter to a job, as the server tells it, by namespace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self

import aiohttp
import orjson

from support.jobs import KINDS
from support.user_client import Refused

from .api import Api, where

PLURALS = (
    *(f"{kind.lower()}s" for kind in KINDS),
    *("pods", "services", "configmaps", "serviceaccounts", "roles", "rolebindings", "horizontalpodautoscalers"),
)


@dataclass(frozen=True, slots=True)
class Version:
    """An object as it became at a moment; `after` is None when it went, and `before` when it came."""

    at: float
    plural: str
    before: dict | None
    after: dict | None

    @property
    def name(self) -> str:
        """Whose it is."""
        return (self.after or self.before)["metadata"]["name"]


@dataclass
class Pages:
    """What happened in one namespace: all versions, and what is there now by plural and name."""

    versions: list[Version] = field(default_factory=list)
    now: dict[str, dict[str, dict]] = field(default_factory=lambda: defaultdict(dict))
    turned: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, question: Callable[[], object], within: float) -> object:
        """The first true answer, asked anew whenever something happens; raises TimeoutError."""
        async with asyncio.timeout(within):
            while not (answer := question()):
                self.turned.clear()
                await self.turned.wait()
            return answer


class Chronicle:
    """Watches a whole cluster; `listeners` are told of each version as well."""

    def __init__(self, api: Api) -> None:
        self.pages: dict[str, Pages] = defaultdict(Pages)
        self.listeners: list[Callable[[str, Version], None]] = []
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
        for namespace, pages in list(self.pages.items()):
            for name in [name for name in pages.now[plural] if (namespace, name) not in there]:
                self._take(plural, pages.now[plural][name], gone=True)
        for item in there.values():
            self._take(plural, item)
        return found["metadata"]["resourceVersion"]

    async def _follow(self, plural: str, version: str) -> None:
        while True:
            # A server that was away is asked for what we missed; only one that has forgotten it, for all there is.
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                try:
                    version = version or await self._list(plural)
                    query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
                    async with contextlib.aclosing(self._api.lines(where(plural), query)) as lines:
                        async for line in lines:
                            event = orjson.loads(line)
                            if event["type"] == "ERROR":
                                version = ""
                                break
                            version = event["object"]["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                self._take(plural, event["object"], gone=event["type"] == "DELETED")
                except Refused as refused:
                    version = "" if refused.code == HTTPStatus.GONE else version
            await asyncio.sleep(0.2)

    def _take(self, plural: str, item: dict, *, gone: bool = False) -> None:
        meta = item["metadata"]
        pages = self.pages[meta["namespace"]]
        known = pages.now[plural]
        before = known.get(meta["name"])
        if not gone and before and before["metadata"]["resourceVersion"] == meta["resourceVersion"]:
            return
        if gone:
            known.pop(meta["name"], None)
            version = Version(time.time(), plural, item, None)
        else:
            known[meta["name"]] = item
            version = Version(time.time(), plural, before, item)
        pages.versions.append(version)
        pages.turned.set()
        for listener in self.listeners:
            listener(meta["namespace"], version)

"""Knows all objects of a kind: LIST in pages, WATCH with bookmarks, and a new LIST replaces what was known."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from trainshed.api.dependent import Dependent, Resource
from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service

from . import ClusterError, Expired, Missing, Unavailable
from .objects import Meta, PodObject, ServiceObject, dependent, pod, service
from .wire import Path, Wire

T = TypeVar("T")
PAGE = 500
#: Seconds that a watch is asked to last: shorter than a read may be silent, for where nothing happens no bookmark comes
#: either, and only the server's ending the watch tells a quiet one from a dead one.
WATCH = 60
#: Seconds between tries after an error, doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 8.0

log = logging.getLogger(__name__)


class Audience(Protocol[T]):
    """Who wants to know. Versions are those of the server's whole store, ascending."""

    def replaced(self, items: list[T], version: str) -> None:
        """These are all there are, as of `version`."""

    def changed(self, item: T) -> None:
        """This one is new or different."""

    def removed(self, item: T) -> None:
        """This one is gone."""


class ListMeta(msgspec.Struct):
    """The metadata of a list."""

    version: str = msgspec.field(name="resourceVersion", default="")
    go_on: str | None = msgspec.field(name="continue", default=None)


class Page(msgspec.Struct):
    """A page of a list, its items still closed."""

    metadata: ListMeta
    items: list[msgspec.Raw]


class Event(msgspec.Struct):
    """A line of a watch, its object still closed."""

    type: str
    object: msgspec.Raw


PAGES, EVENTS = msgspec.json.Decoder(Page), msgspec.json.Decoder(Event)


class Kind(Generic[T]):
    """How to take an object of one kind out of its bytes."""

    def __init__(self, decoder: msgspec.json.Decoder[Any], convert: Callable[[Any], T]) -> None:
        self._decode = decoder.decode
        self._convert = convert

    def item(self, content: msgspec.Raw | bytes) -> T:
        """An object of this kind."""
        return self._convert(self._decode(content))


class Bookmark(msgspec.Struct):
    """The object of a bookmark or of an error, of which little matters."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    code: int = 0
    message: str | None = None


PODS: Kind[Pod] = Kind(msgspec.json.Decoder(PodObject), pod)
SERVICES: Kind[Service] = Kind(msgspec.json.Decoder(ServiceObject), service)


def dependents(resource: Resource) -> Kind[Dependent]:
    """How to take out dependents of a kind."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    return Kind(decoder, lambda found: dependent(resource, msgspec.convert(found["metadata"], Meta), found))


DOCUMENTS: Kind[Document] = Kind(msgspec.json.Decoder(dict[str, Any]), lambda found: found)


async def pages(wire: Wire, path: Path, selector: Mapping[str, str]) -> AsyncIterator[Page]:
    """A list, in pages; raises as `Wire.call` does."""
    go_on: dict[str, str] = {}
    while True:
        page = PAGES.decode(await wire.call("GET", path, query={"limit": str(PAGE), **selector, **go_on}))
        yield page
        if not page.metadata.go_on:
            return
        go_on = {"continue": page.metadata.go_on}


class Informer(Generic[T]):
    """Keeps an audience informed about one kind of object; `run` never ends by itself, whatever the server does."""

    def __init__(self, wire: Wire, path: Path, kind: Kind[T], audience: Audience[T], selector: str = "") -> None:
        self.synced = asyncio.Event()
        self.heard = 0.0
        self._wire = wire
        self._path = path
        self._kind = kind
        self._audience = audience
        self._selector = {"labelSelector": selector} if selector else {}
        self._version = ""
        self._bookmark = msgspec.json.Decoder(Bookmark)

    @property
    def plural(self) -> str:
        """What it watches."""
        return self._path.plural

    async def run(self) -> None:
        """List, watch, and begin again after whatever goes wrong, for ever."""
        failures = 0
        while True:
            heard = self.heard
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                failures = 0
            except Expired:
                self._version = ""
            except (ClusterError, msgspec.DecodeError) as error:
                if isinstance(error, Missing):  # a kind that the server does not know has no objects; it may yet come
                    self._hear()
                    self.synced.set()
                failures = 1 if self.heard > heard and not isinstance(error, Missing) else failures + 1
                log.log(logging.WARNING if failures == 1 else logging.DEBUG, "watch %s: %s", self.plural, error)
                longest = min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE)
                await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - only to spread tries

    async def _list(self) -> None:
        items: list[T] = []
        version = ""
        async for page in pages(self._wire, self._path, self._selector):
            items.extend(self._kind.item(item) for item in page.items)
            version = page.metadata.version
            self._hear()
        self._version = version
        self._audience.replaced(items, version)
        self.synced.set()

    async def _watch(self) -> None:
        seconds = str(random.randint(WATCH, WATCH + WATCH // 4))  # noqa: S311 - so that watches do not end in step
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds, **self._selector}
        async with aclosing(self._wire.watch(self._path, query | {"resourceVersion": self._version})) as lines:
            async for line in lines:
                self._hear()
                try:
                    if line:
                        self._take(line)
                except msgspec.DecodeError as error:  # one object that makes no sense must not hide the others
                    log.error("watch %s: passed over an event: %s", self.plural, error)  # noqa: TRY400 - no traceback
        self._hear()

    def _take(self, line: bytes) -> None:
        event = EVENTS.decode(line)
        told = self._bookmark.decode(event.object)
        if event.type == "ERROR":
            raise (Expired if told.code == HTTPStatus.GONE else Unavailable)(told.message or f"error {told.code}")
        if event.type in ("ADDED", "MODIFIED"):
            self._audience.changed(self._kind.item(event.object))
        elif event.type == "DELETED":
            self._audience.removed(self._kind.item(event.object))
        self._version = told.metadata.resource_version or self._version

    def _hear(self) -> None:
        self.heard = asyncio.get_running_loop().time()


__all__ = ["DOCUMENTS", "PODS", "SERVICES", "Audience", "Informer", "dependents", "pages"]

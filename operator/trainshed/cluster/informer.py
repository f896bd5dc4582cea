"""Knows all objects of a kind: LIST in pages, WATCH with bookmarks, and a new LIST replaces what was known."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from contextlib import aclosing
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import msgspec

from . import ClusterError, Denied, Expired, Missing, Throttled, Unavailable, nesting
from .lists import PAGES, Kind, pages, understood
from .versions import older
from .wire import Path, Wire

T = TypeVar("T")
#: Seconds that a watch is asked to last: shorter than a read may be silent, for where nothing happens no bookmark comes
#: either, and only the server's ending the watch tells a quiet one from a dead one.
WATCH = 60
#: Seconds between tries after an error, doubled each time; within ten after an outage all must be as it was.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 4.0
#: So many failures are remembered of a server that answers: its next one is followed by a second or so.
ANSWERED = 2
#: Seconds: no two watches begin closer to each other; one that lasted so long was a good one.
BRIEF = 1.0
#: Seconds until a list is asked for again that is hard to believe, and for how long one from the past is not believed:
#: a server that lags, or a proxy that keeps what it should not, says better by then, a store that was set back not.
SECOND_THOUGHT, DISBELIEF = 0.5, 30.0

log = logging.getLogger(__name__)


class Audience(Protocol[T]):
    """Who wants to know. Versions are those of the server's whole store, ascending."""

    def replaced(self, items: list[T], version: str) -> None:
        """These are all there are, as of `version`."""

    def changed(self, item: T) -> None:
        """This one is new or different."""

    def removed(self, item: T) -> None:
        """This one is gone."""

    def reached(self, version: str) -> None:
        """All that has happened until `version` has been told."""

    def count(self) -> int:
        """How many it knows of."""


class Event(msgspec.Struct):
    """A line of a watch, its object still closed."""

    type: str
    object: msgspec.Raw


EVENTS = msgspec.json.Decoder(Event)


class Version(msgspec.Struct, rename="camel"):
    """Of an object's metadata the version."""

    resource_version: str = ""


class Bookmark(msgspec.Struct):
    """The object of a bookmark or of an error, of which little matters."""

    metadata: Version = msgspec.field(default_factory=Version)
    code: object = 0
    message: object = None


class Informer(Generic[T]):
    """Keeps an audience informed about one kind of object; `run` never ends by itself, whatever the server does.

    `synced` says that it was listed, or that the server does not know the kind, `heard` when the server has spoken last
    of objects of the kind by the loop's clock, and `refused` with which words it has refused us, if it did so the last
    time. `missing` says that the server does not know the kind, as long as its CRD is not installed.

    What a server says is not believed at once if it is of an earlier time than what it has said before, or if nothing
    is left of all that was known: it is asked again.
    """

    def __init__(self, wire: Wire, path: Path, kind: Kind[T], audience: Audience[T], selector: str = "") -> None:
        self.synced = asyncio.Event()
        self.heard = 0.0
        self.refused = ""
        self.missing = False
        self._wire = wire
        self._path = path
        self._kind = kind
        self._audience = audience
        self._selector = {"labelSelector": selector} if selector else {}
        self._version = ""
        self._newest = ""
        self._emptied = False
        self._began = 0.0
        self._failures = 0
        self._bookmark = msgspec.json.Decoder(Bookmark)

    @property
    def plural(self) -> str:
        """Which kind it watches."""
        return self._path.plural

    @property
    def what(self) -> str:
        """What it watches, for people."""
        return f"{self.plural} in namespace {self._path.namespace}" if self._path.namespace else self.plural

    async def run(self) -> None:
        """List, watch, and begin again after whatever goes wrong, for ever."""
        while True:
            self._began = math.inf
            try:
                await self._round()
                pause = self._began + BRIEF - _clock()
                self._failures = 0
            except ClusterError as error:
                pause = self._after(error)
            await asyncio.sleep(max(0.0, pause))

    def _after(self, error: Exception) -> float:
        """How many seconds to wait after an error: none before the first new list, longer and longer if they go on."""
        if isinstance(error, Missing):  # a kind that the server does not know has no objects; it may yet come
            self.missing = True
            self.synced.set()
        elif self.heard - self._began >= BRIEF:
            self._failures = 0
        self.refused = str(error) if isinstance(error, Denied) else self.refused
        self._failures += 1
        expired = isinstance(error, Expired)
        news = self._failures == (2 if expired else 1)  # that a version expires is everyday's business
        what = f"the API server does not know this kind: {error}" if isinstance(error, Missing) else error
        log.log(logging.WARNING if news else logging.DEBUG, "watch %s: %s", self.what, what)
        if expired:
            self._version = ""
            if self._failures == 1:
                return 0.0
        if isinstance(error, Throttled):  # as a server does that has just started, and reads its store
            return error.wait * random.uniform(1.0, 1.5)  # noqa: S311 - only to spread tries
        longest = min(FIRST_PAUSE * 2.0 ** min(self._failures, 10), LONGEST_PAUSE)
        return random.uniform(longest / 2, longest)  # noqa: S311 - only to spread tries

    async def _round(self) -> None:
        if self._version and self._failures:
            await self._look_back()
        if not self._version or self._emptied:
            await self._list()
        self._began = _clock()
        await self._watch()

    async def _look_back(self) -> None:
        """After an outage: where the server's store was set back, a watch from what we know would be deaf for long."""
        page = PAGES.answer(await self._wire.call("GET", self._path, query={"limit": "1", **self._selector}))
        self._failures = min(self._failures, ANSWERED)  # it answers again: what still goes wrong will not for long
        if older(page.metadata.version, self._version):
            self._version = ""

    async def _list(self) -> None:
        items, version = await self._all()
        since = _clock()
        level = logging.WARNING
        while doubt := self._doubt(items, version, _clock() - since):
            log.log(level, "list %s: %s; asking again", self.what, doubt)
            level = logging.DEBUG
            await asyncio.sleep(SECOND_THOUGHT)
            items, version = await self._all()
        self._emptied = not items and (self._emptied or self._audience.count() > 0)
        self._version = self._newest = version
        self._audience.replaced(items, version)
        self.synced.set()

    def _doubt(self, items: list[T], version: str, seconds: float) -> str:
        """Why a list is not to be believed yet, so many seconds after the first of its sort was read; or nothing."""
        if older(version, self._newest) and seconds < DISBELIEF:
            return f"version {version} is of an earlier time than {self._newest}, which we know"
        if not items and self._audience.count() and seconds < SECOND_THOUGHT:
            return f"none is left of {self._audience.count()}"
        return ""

    async def _all(self) -> tuple[list[T], str]:
        try:
            return await self._read(whole=False)
        except Expired:  # the pages do not keep for as long as it takes to read them
            return await self._read(whole=True)

    async def _read(self, *, whole: bool) -> tuple[list[T], str]:
        items: list[T] = []
        version = ""
        async for page in pages(self._wire, self._path, self._selector, whole=whole):
            items.extend(understood(self._kind, page, self.plural))
            version = page.metadata.version
            self._hear()
        return items, version

    async def _watch(self) -> None:
        seconds = str(random.randint(WATCH, WATCH + WATCH // 4))  # noqa: S311 - so that watches do not end in step
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds, **self._selector}
        async with aclosing(self._wire.watch(self._path, query | {"resourceVersion": self._version})) as lines:
            async for line in lines:
                self._hear()
                try:
                    if line:
                        self._take(line)
                except msgspec.DecodeError as error:
                    log.error("watch %s: skipped undecodable watch event: %s", self.what, error)  # noqa: TRY400 - no traceback
        self._hear()

    def _take(self, line: bytes) -> None:
        event = nesting.decode(EVENTS, line)
        told = self._bookmark.decode(event.object)
        if event.type == "ERROR":
            raise (Expired if told.code == HTTPStatus.GONE else Unavailable)(str(told.message or f"error {told.code}"))
        if event.type in ("ADDED", "MODIFIED"):
            self._audience.changed(self._kind.item(event.object))
        elif event.type == "DELETED":
            self._audience.removed(self._kind.item(event.object))
        elif event.type == "BOOKMARK":
            self._audience.reached(told.metadata.resource_version)
        self._version = told.metadata.resource_version or self._version
        self._newest = self._newest if older(self._version, self._newest) else self._version

    def _hear(self) -> None:
        self.heard = _clock()
        self.refused, self.missing = "", False


def _clock() -> float:
    return asyncio.get_running_loop().time()

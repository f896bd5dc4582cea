"""LIST and WATCH of one resource."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import msgspec

from trainshed.api.objects import is_older
from trainshed.client import ApiError, Forbidden, Gone, NotFound, TooManyRequests, Unavailable

from . import lists
from .lists import PAGES, Decoder, EventHead, decode_items, list_pages
from .long_lists import LARGE
from .nesting import decode_bounded
from .transport import LongLine, Path, RestClient

T = TypeVar("T")
#: `timeoutSeconds` of a watch: shorter than the read timeout, because an idle kind gets no bookmarks either, and only
#: the end of the watch distinguishes an idle connection from a dead one.
WATCH = 60
#: Seconds between tries after an error, doubled each time; caches must be current again 10 s after an outage.
BASE_BACKOFF, MAX_BACKOFF = 0.2, 4.0
#: Failures that are kept when the server responds again: the delay after its next error is about a second.
ANSWERED = 2
#: Minimum seconds between the starts of two watches; a watch that lasted so long counts as successful.
BRIEF = 1.0
#: Seconds after which a watch is not taken to be failing, and failures in a row of shorter ones without an event after
#: which their version is dropped.
LASTING, FRUITLESS = 5.0, 5
#: Seconds until a suspicious list is repeated, and for which a list older than a known version is not accepted: a stale
#: server or a caching proxy has caught up by then, but a store that was restored from a backup has not.
RECHECK_AFTER, DISBELIEF = 0.5, 30.0

#: Seconds for which the objects of a list are decoded before other tasks run.
SLICE = 0.01

log = logging.getLogger(__name__)


class ResourceEventHandler(Protocol[T]):
    """The handler of an informer's events. Versions are resourceVersions, which ascend for the whole store."""

    def replaced(self, items: list[T], version: str) -> None:
        """Replace all known objects by `items`, the complete list as of `version`."""

    def changed(self, item: T) -> None:
        """Add or update an object."""

    def removed(self, item: T) -> None:
        """Remove an object."""

    def on_response(self, item: T) -> None:
        """Add or update an object that was read beside the watch."""

    def forgotten(self, uid: str) -> None:
        """Remove the object with this uid, if it is known."""

    def has(self, uid: str, version: str) -> bool:
        """Return whether an object is known at exactly this version, as after the response to an own write."""

    def on_bookmark(self, version: str) -> None:
        """Note that all events up to `version` have been delivered."""

    def count(self) -> int:
        """Return the number of known objects."""


class Version(msgspec.Struct, rename="camel"):
    """The metadata of an object, reduced to the uid and the version."""

    uid: str = ""
    resource_version: str = ""


class Bookmark(msgspec.Struct):
    """The used fields of a bookmark's or an error's object."""

    metadata: Version = msgspec.field(default_factory=Version)
    code: object = 0
    message: object = None


class WatchEvent(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: Bookmark


class RawWatchEvent(msgspec.Struct):
    """A line of a watch, with the undecoded object."""

    object: msgspec.Raw


RAW_WATCH_EVENTS = msgspec.json.Decoder(RawWatchEvent)


class Informer(Generic[T]):
    """Lists and watches one kind of object and calls its handler; `run` never returns by itself.

    `synced` is set after the first list, or if the server does not serve the kind. `heard` is the event loop's time of
    the last data about the kind, `went_on` that of the last list that was read to its end, or watch that lasted or had
    an event: a server that answers nothing else is heard, and of no use. `refused` is the message of a 403 if the last
    request got one, `error` the last error. `missing` is true while the server does not serve the kind, that is, its
    CRD is not installed.

    A list is requested again before it is accepted if it is older than a known version, or if it is empty although
    objects were known. A version from which the watch fails again and again is dropped, and so is one whose event is
    too long and cannot be read otherwise: nothing that a user can store keeps the watch from going on.

    `selector` is a label selector, or the query of another one.
    """

    def __init__(
        self,
        rest: RestClient,
        path: Path,
        kind: Decoder[T],
        handler: ResourceEventHandler[T],
        selector: str | Mapping[str, str] = "",
    ) -> None:
        self.synced = asyncio.Event()
        self.heard = self.went_on = 0.0
        self.refused = self.error = ""
        self.missing = False
        self._rest = rest
        self._path = path
        self._kind = kind
        self._handler = handler
        self._selector = {"labelSelector": selector} if isinstance(selector, str) and selector else dict(selector or {})
        self._version = ""
        self._newest = ""
        self._emptied = False
        self._began = 0.0
        self._failures = self._fruitless = 0
        self._failing_since: float | None = None
        self._opened: float | None = None
        self._long_lines = 0
        self._watch_events = msgspec.json.Decoder(WatchEvent)

    @property
    def plural(self) -> str:
        """The plural name of the kind."""
        return self._path.plural

    @property
    def prefix(self) -> str:
        """The path of the API group and version of the kind."""
        return self._path.prefix

    @property
    def what(self) -> str:
        """A description of the watched objects, for log lines."""
        return f"{self.plural} in namespace {self._path.namespace}" if self._path.namespace else self.plural

    def failing(self, now: float) -> float:
        """Return for how many seconds no list has succeeded and no watch has lasted or delivered an event."""
        return 0.0 if self._failing_since is None or self._lasts(now) else now - self._failing_since

    async def run(self, failed: Callable[[ApiError], None] = lambda _: None) -> None:
        """List and watch in an endless loop, and start again after every error.

        `failed` is called with each error; what it raises ends the loop.
        """
        while True:
            self._began, self._opened = math.inf, None
            try:
                await self._round()
                pause = self._began + BRIEF - _clock()
                self._failures = 0
                self._goes_on()
            except ApiError as error:
                pause = self._after(error)
                failed(error)
            await asyncio.sleep(max(0.0, pause))

    def _after(self, error: Exception) -> float:
        """Return the seconds to wait after an error: 0 before the first new list, then increasing with each error."""
        if isinstance(error, NotFound):  # a kind that is not served has no objects; its CRD may be installed later
            self.missing = True
            self.synced.set()
        elif self.heard - self._began >= BRIEF:
            self._failures = 0
        self.error = str(error)
        self.refused = self.error if isinstance(error, Forbidden) else self.refused
        self._failures += 1
        self._note_failure()
        expired = isinstance(error, Gone)
        first = self._failures == (2 if expired else 1)  # an expired version is normal
        what = f"the API server does not serve this kind: {error}" if isinstance(error, NotFound) else error
        log.log(logging.WARNING if first else logging.DEBUG, "watch %s: %s", self.what, what)
        if expired:
            self._version = ""
            if self._failures == 1:
                return 0.0
        if isinstance(error, TooManyRequests):  # as a server does that has just started and fills its watch cache
            return error.wait * random.uniform(1.0, 1.5)  # noqa: S311 - jitter
        longest = min(BASE_BACKOFF * 2.0 ** min(self._failures, 10), MAX_BACKOFF)
        return random.uniform(longest / 2, longest)  # noqa: S311 - jitter

    def _note_failure(self) -> None:
        """Drop the version after FRUITLESS watches from it have failed soon; a list shows what they do not."""
        now = _clock()
        opened, lasts = self._opened is not None, self._lasts(now)
        if lasts or self._failing_since is None:
            self._failing_since = now
        if lasts:
            self.went_on = now
        self._opened = None
        self._fruitless = 0 if lasts else self._fruitless + opened
        if self._fruitless >= FRUITLESS:
            self._fruitless, self._version = 0, ""

    def _lasts(self, now: float) -> bool:
        return self._opened is not None and now - self._opened >= LASTING

    def _goes_on(self) -> None:
        self._failing_since, self._fruitless, self.went_on = None, 0, self.heard

    async def _round(self) -> None:
        if self._version and self._failures:
            await self._check_version()
        if not self._version or self._emptied:
            await self._list()
        self._began = _clock()
        await self._watch()

    async def _check_version(self) -> None:
        """After an outage, drop the version if the store was restored: a watch from it would get no events for long."""
        page = PAGES.answer(await self._rest.call("GET", self._path, query={"limit": "1", **self._selector}))
        self._failures = min(self._failures, ANSWERED)  # the server responds again: further errors are likely brief
        if is_older(page.metadata.version, self._version):
            self._version = ""

    async def _list(self) -> None:
        items, version = await self._all()
        since = _clock()
        level = logging.WARNING
        while doubt := self._doubt(items, version, _clock() - since):
            log.log(level, "list %s: %s; listing again", self.what, doubt)
            level = logging.DEBUG
            await asyncio.sleep(RECHECK_AFTER)
            items, version = await self._all()
        self._emptied = not items and (self._emptied or self._handler.count() > 0)
        self._version = self._newest = version
        self._handler.replaced(items, version)
        self.synced.set()
        self._goes_on()

    def _doubt(self, items: list[T], version: str, seconds: float) -> str:
        """Return why a list is not accepted yet, `seconds` after the first suspicious one; empty if it is accepted."""
        if is_older(version, self._newest) and seconds < DISBELIEF:
            return f"version {version} is older than {self._newest}, which is known already"
        if not items and self._handler.count() and seconds < RECHECK_AFTER:
            return f"the list is empty, but {self._handler.count()} objects are known"
        return ""

    async def _all(self) -> tuple[list[T], str]:
        try:
            return await self._read(whole=False)
        except Gone:  # the pages expire before all of them are read
            return await self._read(whole=True)

    async def _read(self, *, whole: bool) -> tuple[list[T], str]:
        items: list[T] = []
        version = ""
        async for page in list_pages(self._rest, self._path, self._selector, whole=whole):
            began = _clock()
            for item in decode_items(self._kind, page, self.plural):
                items.append(item)
                if _clock() - began > SLICE:
                    await asyncio.sleep(0)
                    began = _clock()
            version = page.metadata.version
            self._received()
        return items, version

    async def _watch(self) -> None:
        seconds = str(random.randint(WATCH, WATCH + WATCH // 4))  # noqa: S311 - so that watches do not end at the same time
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds, **self._selector}
        async with aclosing(self._rest.watch(self._path, query | {"resourceVersion": self._version})) as lines:
            async for line in lines:
                self._received()
                self._opened = _clock() if self._opened is None else self._opened
                try:
                    if isinstance(line, LongLine):
                        await self._read_alone(line)
                    elif line:
                        self._handle(line)
                except msgspec.DecodeError as error:
                    log.error("watch %s: skipped undecodable watch event: %s", self.what, error)  # noqa: TRY400 - no traceback
        self._received()

    def _handle(self, line: bytes) -> None:
        event = self._event(line)
        body = event.object
        if event.type == "ERROR":
            raise (Gone if body.code == HTTPStatus.GONE else Unavailable)(str(body.message or f"error {body.code}"))
        known = body.metadata
        if event.type in ("ADDED", "MODIFIED") and self._handler.has(known.uid, known.resource_version):
            self._handler.on_bookmark(
                known.resource_version
            )  # most events follow own writes: they are not decoded again
        elif event.type in ("ADDED", "MODIFIED"):
            self._handler.changed(self._item(line))
        elif event.type == "DELETED":
            self._handler.removed(self._item(line))
        elif event.type == "BOOKMARK":
            self._handler.on_bookmark(body.metadata.resource_version)
        self._reached(known.resource_version)

    def _event(self, line: bytes) -> WatchEvent:
        head = lists.event_head(line) if len(line) > LARGE else None
        if head is None:
            return decode_bounded(self._watch_events, line)
        return WatchEvent(head.type, Bookmark(Version(head.uid, head.version)))

    async def _read_alone(self, line: LongLine) -> None:
        """Get the object of an event that is too long by itself, or list again: the same watch would fail again."""
        head = lists.event_head(line.head)
        name = f"{head.namespace}/{head.name}" if head else "an object"
        level = logging.DEBUG if self._long_lines else logging.WARNING
        log.log(level, "watch %s: skipped an event of %d bytes about %s; reading it alone", self.what, line.size, name)
        self._long_lines += 1
        self._version, version = "", self._version
        if head is None or not (self._path.namespace or head.namespace):
            raise Gone(f"an event of {line.size} bytes is too long")
        item = await self._get(head) if head.type != "DELETED" else None
        if item is None:
            self._handler.forgotten(head.uid)
        else:
            self._handler.on_response(item)
        self._handler.on_bookmark(head.version)
        self._version = version
        self._reached(head.version)

    async def _get(self, head: EventHead) -> T | None:
        """Return the object, or None if it is gone; raises `Gone` if the answer is older than the event."""
        path = Path(self._path.prefix, self._path.plural, self._path.namespace or head.namespace, head.name)
        try:
            content = await self._rest.call("GET", path)
        except NotFound:
            return None
        found = lists.METADATA.answer(content)
        if is_older(found.resource_version, head.version):
            raise Gone(f"{head.name} is older than its event")
        return self._kind.answer(content) if found.uid == head.uid else None

    def _reached(self, version: str) -> None:
        if version and version != self._version:
            self._version = version
            self._goes_on()
        self._newest = self._newest if is_older(self._version, self._newest) else self._version

    def _item(self, line: bytes) -> T:
        return self._kind.item(decode_bounded(RAW_WATCH_EVENTS, line).object)

    def _received(self) -> None:
        self.heard = _clock()
        self.refused, self.missing = "", False


def _clock() -> float:
    return asyncio.get_running_loop().time()

"""The page for a team: a feed for each user and namespace, so that no user is shown what the API server refuses."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Generic, TypeVar

from trainshed.api.foreign_text import one_line
from trainshed.client.job_reader import JobReader
from trainshed.client.transport import RestClient
from trainshed.process import Clock

from .feed import Feed
from .proxy_headers import ActingUser, RequestRefused

#: Seconds that a feed goes on without a reader, that the first page waits for it, and between two checks for idle ones.
IDLE, FIRST, POLL_SECONDS = 300.0, 3.0, 15.0
#: The most feeds of one user, and requests that read one at a time: each open page is one.
MOST_OF_USER, MOST_REQUESTS = 6, 64
#: The most jobs and pods of all feeds: each takes about 5.5 KB, and this many three quarters of the chart's memory.
MOST_OBJECTS = 135_000
#: What is said of a page for which there is no room, as all feeds are read.
OWN_FULL = (
    f"You have pages of {MOST_OF_USER} namespaces open, and that is the most at a time. Close those of one of them, "
    "and load this page again."
)
ALL_FULL = (
    "So many people look at jobs now that there is no room for one more. Load this page again in a minute; the "
    "administrator can make room (ui.mostFeeds of the chart, --most-feeds)."
)
#: A name of a namespace, a DNS label (RFC 1123), or none.
NAMESPACE = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?", re.ASCII)

SiteT = TypeVar("SiteT")
#: Connects to the API server with the rights of a user.
Connect = Callable[[ActingUser], RestClient]
#: Makes the pages over a feed; the text says whose they are.
Draw = Callable[[Feed, str], SiteT]

log = logging.getLogger(__name__)


class UserFeed(Generic[SiteT]):
    """A feed that runs with the rights of one user, and the pages over it, until it is refused what it could read."""

    def __init__(self, rest: RestClient, user: ActingUser, namespace: str, draw: Draw[SiteT]) -> None:
        self._rest = rest
        # In milliseconds, so that they are later than those of any feed before, which a browser may know.
        self.feed = Feed(JobReader(rest), namespace, revision=int(Clock().now().timestamp() * 1000))
        self.site = draw(self.feed, one_line(user.user, 64) or "cluster")
        self.requests, self.read_last = 0, _clock()
        self._task = asyncio.create_task(self._run())

    @property
    def is_over(self) -> bool:
        """Whether it no longer follows: what it knows may be what the user may not read any more."""
        return self.feed.is_over or self._task.done()

    @property
    def is_refused(self) -> bool:
        """Whether something of the namespace, or of all of them, may not be read."""
        return bool(self._refused())

    def is_idle(self, now: float) -> bool:
        """Return whether no page has read it for a while."""
        return not self.requests and now - self.read_last >= IDLE

    async def close(self) -> None:
        """End it, and all that read it."""
        self.feed.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._rest.close()

    async def _run(self) -> None:
        """Follow until something is refused that was not at the beginning: then what was read before is forgotten."""
        following = asyncio.create_task(self.feed.run())
        following.add_done_callback(self._ended)
        try:
            await self.feed.synced.wait()
            refused = self._refused()
            revision = 0
            while not following.done() and self._refused() <= refused:
                refused = self._refused()
                revision = await self.feed.newer(revision)
        finally:
            self.feed.close()
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    def _ended(self, _following: asyncio.Task[None]) -> None:
        """Wake all that wait, as nothing more comes."""
        self.feed.close()
        self.feed.synced.set()

    def _refused(self) -> set[str]:
        return {notice.text for notice in self.feed.notices() if notice.kind == "refused"}


class Team(Generic[SiteT]):
    """Keeps at most `most` feeds of the users who read, with `most_objects` jobs and pods, but always one."""

    def __init__(self, connect: Connect, draw: Draw[SiteT], most: int, most_objects: int = MOST_OBJECTS) -> None:
        self._connect, self._draw, self._most, self._most_objects = connect, draw, most, most_objects
        self._feeds: dict[tuple[ActingUser, str], UserFeed[SiteT]] = {}
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def read(self, user: ActingUser, namespace: str) -> AsyncIterator[SiteT]:
        """Yield the pages of a namespace, or of all if it is empty, as a user may see them; raises `RequestRefused`."""
        if not NAMESPACE.fullmatch(namespace):
            raise RequestRefused(HTTPStatus.NOT_FOUND, "This is not the name of a namespace.")
        found = await self._feed_of(user, namespace)
        if found.requests >= MOST_REQUESTS:
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "Too many pages are open. Close some of them.")
        found.requests += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST):
                    await found.feed.synced.wait()
            yield found.site
        finally:
            found.requests -= 1
            found.read_last = _clock()

    async def run(self) -> None:
        """End the feeds that no page reads any more, without end."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for key, one in list(self._feeds.items()):  # others may end them, or read them again, meanwhile
                if self._feeds.get(key) is one and (one.is_over or one.is_idle(_clock())):
                    await self._feeds.pop(key).close()
            while len(self._feeds) > 1 and self._objects() > self._most_objects and (free := self._free(self._feeds)):
                await self._feeds.pop(free[0]).close()

    async def close(self) -> None:
        """End all feeds."""
        while self._feeds:
            await self._feeds.popitem()[1].close()

    async def _feed_of(self, user: ActingUser, namespace: str) -> UserFeed[SiteT]:
        """Return the feed of a namespace: that of all, if there is one which the user may read whole."""
        whole = self._feeds.get((user, ""))
        if whole and whole.feed.synced.is_set() and not (whole.is_over or whole.is_refused):
            return whole
        key = (user, namespace)
        async with self._making:
            found = self._feeds.get(key)
            if found and found.is_over:
                await self._feeds.pop(key).close()
                found = None
            if found is None:
                await self._make_room(user, namespace)
                found = self._feeds[key] = UserFeed(self._connect(user), user, namespace, self._draw)
        return found

    async def _make_room(self, user: ActingUser, namespace: str) -> None:
        """End the feeds that were read least recently if the user or all have too many; raises `RequestRefused`.

        A new feed is expected to be as large as those that others have of its namespace.
        """
        own = [key for key in self._feeds if key[0] == user]
        if user.user and len(own) >= MOST_OF_USER:  # all who read as the server are one without a name
            await self._end_one(own, OWN_FULL)
        same = (one.feed.size for key, one in self._feeds.items() if key[1] == namespace)
        room = self._most_objects - max(same, default=0)
        while self._feeds and (len(self._feeds) >= self._most or self._objects() > room):
            await self._end_one(self._feeds, ALL_FULL)

    async def _end_one(self, candidates: Iterable[tuple[ActingUser, str]], refusal: str) -> None:
        if not (free := self._free(candidates)):
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, refusal)
        await self._feeds.pop(free[0]).close()

    def _free(self, candidates: Iterable[tuple[ActingUser, str]]) -> list[tuple[ActingUser, str]]:
        """Return the feeds that no page reads, those that were read least recently first."""
        free = (key for key in candidates if not self._feeds[key].requests)
        return sorted(free, key=lambda key: self._feeds[key].read_last)

    def _objects(self) -> int:
        return sum(one.feed.size for one in self._feeds.values())


def _clock() -> float:
    return asyncio.get_running_loop().time()

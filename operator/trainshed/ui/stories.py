"""The stories of the jobs whose pages are open, read once for all who look at one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.client import ApiError, Forbidden
from trainshed.client.job_reader import NoSuchJob
from trainshed.job_facts import read_story
from trainshed.views.chapter import Story
from trainshed.views.rows import event_time

from .feed import Feed
from .model import Address, JobFile
from .seen_facts import lives_of

#: The most stories that are kept, and Events beside each.
MOST_STORIES, MOST_EVENTS = 200, 200
#: How long a story lasts while nothing changes: it says how long ago things were, and Events change by themselves. The
#: first one after a change lasts less, as the Events about that come after it.
LASTS, FIRST_LASTS = timedelta(seconds=20), timedelta(seconds=3)


class Reading(msgspec.Struct, frozen=True):
    """What was read beside a job at a time, when its feed had this revision of it; `again` if not for the first."""

    revision: int = -1
    again: bool = False
    time: datetime | None = None
    story: Story | None = None
    events: tuple[Document, ...] = ()


class Stories:
    """Reads stories over a feed; the one of a job that is gone is the last one that was read.

    `say` puts the story of a job in other words.
    """

    def __init__(self, feed: Feed, say: Callable[[Story, Document], Story] | None = None) -> None:
        self._feed, self._say = feed, say
        self._kept: dict[Address, Reading] = {}
        self._turns: dict[Address, asyncio.Lock] = {}

    async def file(self, address: Address) -> JobFile | None:
        """Return all that is known of a job with its story; None if it is not known."""
        file = self._feed.file(address)
        if file is None:
            return None
        async with self._turns.setdefault(address, asyncio.Lock()):
            reading = await self._read(address, file)
        return msgspec.structs.replace(file, story=reading.story, events=reading.events)

    async def _read(self, address: Address, file: JobFile) -> Reading:
        kept, now, newest = self._kept.get(address, Reading()), self._feed.now(), self._feed.revision_of(address)
        kind = self._feed.kind_of(file.document)
        lasts = LASTS if kept.again else FIRST_LASTS
        is_fresh = kept.revision == newest and kept.time is not None and now - kept.time < lasts
        if is_fresh or file.deleted or kind is None:
            return kept
        try:
            # Those of the feed are enough: a job may have 10,000, which would be read again after each change.
            known = [life.pod for life in lives_of(file.pods) if life.removed is None]
            pods = known or await self._feed.reader.pods(file.document)
            story, events = await asyncio.gather(
                read_story(self._feed.reader, file.document, kind, pods), self._events(file.document, pods)
            )
        except (ApiError, NoSuchJob):
            return kept
        if self._say:
            story = self._say(story, file.document)
        self._kept.pop(address, None)
        self._kept[address] = reading = Reading(newest, kept.revision == newest, now, story, events)
        for old in list(self._kept)[: max(0, len(self._kept) - MOST_STORIES)]:
            del self._kept[old]
            self._turns.pop(old, None)
        return reading

    async def _events(self, document: Document, pods: Sequence[Pod]) -> tuple[Document, ...]:
        """Return the last Events about a job and its pods; none if they may not be read."""
        try:
            found = await self._feed.reader.events(document, pods)
        except Forbidden:
            return ()
        return tuple(sorted(found, key=event_time)[-MOST_EVENTS:])

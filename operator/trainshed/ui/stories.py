"""The stories of the jobs whose pages are open, read once for all who look at one."""

from __future__ import annotations

import asyncio

import msgspec

from trainshed.client import ApiError
from trainshed.client.job_reader import NoSuchJob
from trainshed.job_facts import read_story
from trainshed.views.chapter import Story

from .feed import Feed
from .model import Address, JobFile

#: The most stories that are kept.
MOST_STORIES = 200


class Stories:
    """Reads stories over a feed; the one of a job that is gone is the last one that was read."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._kept: dict[Address, tuple[int, Story | None]] = {}
        self._turns: dict[Address, asyncio.Lock] = {}

    async def file(self, address: Address) -> JobFile | None:
        """Return all that is known of a job with its story; None if it is not known."""
        file = self._feed.file(address)
        if file is None:
            return None
        async with self._turns.setdefault(address, asyncio.Lock()):
            story = await self._story(address, file)
        return msgspec.structs.replace(file, story=story)

    async def _story(self, address: Address, file: JobFile) -> Story | None:
        revision, kept = self._kept.get(address, (-1, None))
        newest = self._feed.revision_of(address)
        kind = self._feed.kind_of(file.document)
        if revision == newest or file.deleted or kind is None:
            return kept
        try:
            story: Story | None = await read_story(self._feed.reader, file.document, kind)
        except (ApiError, NoSuchJob):
            return kept
        self._kept.pop(address, None)
        self._kept[address] = newest, story
        for old in list(self._kept)[: len(self._kept) - MOST_STORIES]:
            del self._kept[old]
            self._turns.pop(old, None)
        return story

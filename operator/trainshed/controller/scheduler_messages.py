"""Reads what the scheduler says about the PodGroups of a namespace, once for all jobs of it that wait."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial

import msgspec

from trainshed.api.coerce import as_mapping
from trainshed.api.job import Document
from trainshed.api.objects import POD_GROUP
from trainshed.client import ApiError, Client
from trainshed.plan import pod_groups

from .cache import Cache

#: What was read, also an error, is shared for this time. A list costs the API server what all Events of the namespace
#: cost, whatever is selected: jobs that wait have several each.
SHARED = timedelta(seconds=30)


class _Read(msgspec.Struct):
    """What the Events of a namespace say, by the uid of the PodGroup: the time and the text."""

    lock: asyncio.Lock
    at: datetime | None = None
    said: dict[str, tuple[str, str]] = {}
    error: ApiError | None = None


class SchedulerMessages:
    """The last message of the scheduler about each PodGroup."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        self._reads: dict[str, _Read] = {}

    async def about(self, uid: str, namespace: str, now: datetime) -> str:
        """Return what was said about the PodGroup with this uid, "" for nothing.

        Raises the `ApiError` of the list.
        """
        found = self._reads.setdefault(namespace, _Read(asyncio.Lock()))
        async with found.lock:
            if not _is_recent(found, now):
                await self._read(namespace, found, now)
        if found.error:
            raise found.error.with_traceback(None)
        return found.said.get(uid, ("", ""))[1]

    async def _read(self, namespace: str, found: _Read, now: datetime) -> None:
        for name, read in tuple(self._reads.items()):
            if not (_is_recent(read, now) or read.lock.locked()):
                del self._reads[name]
        said: dict[str, tuple[str, str]] = {}
        error = None
        try:
            await self._client.read_events(namespace, POD_GROUP, partial(_take, said, self._known(namespace)))
        except ApiError as failure:
            error = failure
        found.at, found.said, found.error = now, said, error

    def _known(self, namespace: str) -> frozenset[str]:
        """Return the uids of the PodGroups of a namespace: what else has such Events may be much."""
        kinds = (children.store for kind, children in self._cache.dependents.items() if kind.kind == POD_GROUP)
        return frozenset(one.uid for store in kinds for one in store.items.values() if one.namespace == namespace)


def _is_recent(read: _Read, now: datetime) -> bool:
    return read.at is not None and abs(now - read.at) < SHARED


def _take(said: dict[str, tuple[str, str]], known: frozenset[str], event: Document) -> None:
    """Keep the message of an Event if it is the latest about a PodGroup that is known."""
    uid = str(as_mapping(event.get("involvedObject")).get("uid") or "")
    if uid in known:
        said[uid] = pod_groups.latest_message(said.get(uid, ("", "")), event)

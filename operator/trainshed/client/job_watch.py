"""Follows the jobs of some kinds: what changes, and what was deleted, also while no watch was there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from . import ApiError, Forbidden, NotFound
from .informer import Informer
from .job_reader import JobReader, Jobs, Reading, decoder
from .lists import Decoder
from .outage import PATIENCE, Outage
from .transport import Path, RestClient

T = TypeVar("T")


class Change(msgspec.Struct, Generic[T], frozen=True):
    """An object as it is now, or as it was when it was deleted."""

    item: T
    deleted: bool


class Known(Generic[T]):
    """The objects of a kind by uid; each change of them is put somewhere."""

    def __init__(self, known: dict[str, T], put: Callable[[Change[T]], None]) -> None:
        self._known, self._put = known, put

    def replaced(self, items: list[tuple[str, T]], version: str) -> None:
        """Take the complete list: what is not in it was deleted."""
        del version
        there = {uid for uid, _ in items}
        for uid in [uid for uid in self._known if uid not in there]:
            self.forgotten(uid)
        for item in items:
            self.changed(item)

    def changed(self, item: tuple[str, T]) -> None:
        """Add or update an object."""
        uid, job = item
        self._known[uid] = job
        self._put(Change(job, deleted=False))

    on_response = changed

    def removed(self, item: tuple[str, T]) -> None:
        """Remove an object."""
        uid, job = item
        self._known[uid] = job
        self.forgotten(uid)

    def forgotten(self, uid: str) -> None:
        """Remove the object with this uid, if it is known."""
        if uid in self._known:
            self._put(Change(self._known.pop(uid), deleted=True))

    def has(self, uid: str, version: str) -> bool:
        """Return False: there are no own writes."""
        del uid, version
        return False

    def on_bookmark(self, version: str) -> None:
        """Do nothing: the informer has the version."""

    def count(self) -> int:
        """Return the number of known objects."""
        return len(self._known)


class Followed(msgspec.Struct, Generic[T], frozen=True):
    """The jobs of one kind that are followed, and those of them that are known already, by uid."""

    path: Path
    kind: Decoder[tuple[str, T]]
    known: dict[str, T]


def job_changes(
    reader: JobReader,
    wanted: Jobs,
    read: Reading[T],
    known: Mapping[tuple[str, str], T],
    say: Callable[[str], None],
) -> AsyncGenerator[Change[T], None]:
    """Yield what `read` makes of all jobs, and then of each that changes, as `changes` does.

    `known` are jobs that were read already, by kind and uid.
    """
    followed = [
        Followed(
            Path(kind.prefix, kind.plural, wanted.namespace),
            decoder(kind, read),
            {uid: job for (word, uid), job in known.items() if word == kind.kind},
        )
        for kind in wanted.kinds
    ]
    return changes(reader.rest, followed, wanted.query, say)


async def changes(
    rest: RestClient, kinds: Sequence[Followed[T]], query: Mapping[str, str], say: Callable[[str], None]
) -> AsyncGenerator[Change[T], None]:
    """Yield all jobs, then each change, without end; a known job that is not there is deleted.

    A kind that may not be read is left out, which `say` is called with, as with an outage. Raises `Forbidden` if none
    may be read, and `Unavailable` if the credentials are rejected.
    """
    queue: asyncio.Queue[Change[T] | asyncio.Task[None]] = asyncio.Queue()
    outage = Outage(say)
    tasks = [asyncio.create_task(_follow(rest, kind, query, outage, queue.put_nowait)) for kind in kinds]
    for task in tasks:
        task.add_done_callback(queue.put_nowait)
    left = len(tasks)
    try:
        while True:
            found = await queue.get()
            if isinstance(found, Change):
                yield found
                continue
            left -= 1
            error = found.exception()
            if not left or not isinstance(error, Forbidden):
                found.result()
            say(f"Not watched: {error}")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    rest: RestClient,
    followed: Followed[T],
    query: Mapping[str, str],
    outage: Outage,
    put: Callable[[Change[T]], None],
) -> None:
    jobs = Known(dict(followed.known), put)
    informer = Informer(rest, followed.path, followed.kind, jobs, query)

    def failed(error: ApiError) -> None:
        if outage.note(error, informer.went_on) >= PATIENCE and isinstance(error, NotFound):
            jobs.replaced([], "")  # the CRD is gone, and with it the jobs

    await informer.run(failed)

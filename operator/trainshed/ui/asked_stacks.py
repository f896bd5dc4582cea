"""The stacks that the page was asked to read: those that were read last of each job, as they are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.client import ApiError
from trainshed.client.job_reader import JobKind
from trainshed.progress.stack_frames import Frame
from trainshed.views import rank_stacks as view
from trainshed.views.rank_stacks import ReplicaStacks
from trainshed.views.rows import listed

from .changes import GONE, said_of
from .feed import Feed
from .model import Address, JobFile, RanksAt, ShownStacks

#: The most replicas whose stacks are read for a page, the jobs of which they are kept, and the characters of a frame.
MOST_REPLICAS, MOST_JOBS, LONGEST_FRAME = 128, 20, 160
#: Reads the stacks of a job: of so many of its replicas that run, at most.
ReadStacks = Callable[[Document, JobKind, int], Awaitable[ReplicaStacks]]


class AskedStacks:
    """Reads stacks to the end also if the browser does not wait, and those of a job once for all who ask meanwhile."""

    def __init__(self, feed: Feed, read: ReadStacks) -> None:
        self._feed, self._read = feed, read
        self._kept: dict[Address, ShownStacks] = {}
        self._under_way: dict[Address, asyncio.Task[None]] = {}

    def of(self, address: Address) -> ShownStacks | None:
        """Return what was read last of a job."""
        return self._kept.get(address)

    async def ask(self, file: JobFile) -> None:
        """Read the stacks of a job, and keep them."""
        address = file.address
        if address not in self._under_way:
            task = self._under_way[address] = asyncio.create_task(self._keep(address, file))
            task.add_done_callback(lambda _task: self._under_way.pop(address))
        await asyncio.shield(self._under_way[address])

    async def _keep(self, address: Address, file: JobFile) -> None:
        found = await self._found(file)
        self._kept.pop(address, None)
        self._kept[address] = found
        for old in list(self._kept)[:-MOST_JOBS]:
            del self._kept[old]

    async def _found(self, file: JobFile) -> ShownStacks:
        kind = self._feed.kind_of(file.document)
        if file.deleted or kind is None:
            return ShownStacks(self._feed.now(), problems=(GONE,))
        try:
            return shown(await self._read(file.document, kind, MOST_REPLICAS), self._feed.now())
        except ApiError as error:
            return ShownStacks(self._feed.now(), problems=(said_of(error),))


def shown(read: ReplicaStacks, now: datetime) -> ShownStacks:
    """Return stacks as the page shows them: ranks at the same place together, all of it printable and bounded."""
    if not read.found:
        return ShownStacks(now, problems=("No replica runs.",))
    ranks = view.ranks_in(read.found)
    groups = view.grouped(ranks)
    missing = view.without_stacks(read.found, ranks)
    problems = [one_line(f"No stack of {listed(names)}: {reason}", 1_000) for reason, names in missing.items()]
    if read.left:
        problems.append(
            f"Only {len(read.found)} replicas were read, and {read.left} more run: trainshed stacks reads all."
        )
    if len(groups) > view.GROUPS:
        problems.append(f"The ranks are at {len(groups)} places, of which {view.GROUPS} are shown.")
    return ShownStacks(
        now,
        one_line(view.headline(groups)) if groups else "",
        tuple(_group(one) for one in groups[: view.GROUPS]),
        tuple(problems[: view.GROUPS]),
        tuple(map(one_line, read.advice)),
    )


def _group(one: view.RankGroup) -> RanksAt:
    return RanksAt(one_line(view.who(one)), _texts(view.important(one.frames)), _texts(one.frames), one.waits)


def _texts(frames: Iterable[Frame]) -> tuple[str, ...]:
    return tuple(one_line(str(frame), LONGEST_FRAME) for frame in frames)

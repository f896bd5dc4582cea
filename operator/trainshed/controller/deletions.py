"""Carries out the deletions of plans: many at a time, and few of those that fail alike."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from trainshed.client import Altered, ApiError, Conflict
from trainshed.client.flow_control import run_concurrently

#: Deletions of one plan that are in flight at a time.
MAX_DELETIONS = 32
#: Errors in a row after which deletions are tried one at a time, and failures of these after which the others are
#: left to the next plan.
ALIKE, PROBES = 3, 3
#: Errors that say nothing about other objects.
SINGLE = (Conflict, Altered)
#: The number of jobs, and kinds of objects of each, whose deletions fail, that are remembered.
MOST = 20_000

#: Executes one action.
Task: TypeAlias = Callable[[], Awaitable[None]]


class _Row(msgspec.Struct):
    """The errors of the deletions of a kind, and how many of the last ones in a row may concern all."""

    times: int
    errors: list[ApiError] = msgspec.field(default_factory=list)

    async def run(self, task: Task) -> None:
        try:
            await task()
        except ApiError as error:
            self.times = 0 if isinstance(error, SINGLE) else self.times + 1
            self.errors.append(error)
        else:
            self.times = 0


class Deletions:
    """Carries out deletions.

    Where an admission webhook cannot be called, or refuses all, each plan of a job would send all its deletions again.
    So after ALIKE errors in a row the others of the same kind are tried one at a time until one succeeds, and no more
    of them once PROBES have failed. The next plan begins so, with those that were not tried: an object that is refused
    by itself does not keep the others. Those of another kind, such as Services, have nothing to do with that.
    """

    def __init__(self) -> None:
        #: How many deletions have been tried of those that fail, by job and kind.
        self._failing: OrderedDict[tuple[str, Hashable], int] = OrderedDict()

    def clear(self) -> None:
        """Forget which deletions fail."""
        self._failing.clear()

    async def run(self, uid: str, tasks: Mapping[Hashable, Sequence[Task]]) -> list[ApiError]:
        """Carry out deletions of the job with this uid, by kind, at least one; return the errors."""
        calls = [partial(self._run, (uid, kind), wanted) for kind, wanted in tasks.items()]
        return [error for found in await run_concurrently(calls) for error in found]

    async def _run(self, kind: tuple[str, Hashable], tasks: Sequence[Task]) -> list[ApiError]:
        tried = self._failing.pop(kind, None)
        row = _Row(0 if tried is None else ALIKE)
        remaining, left = deque(tasks), PROBES
        remaining.rotate(-(tried or 0))

        async def work() -> None:
            while remaining and row.times < ALIKE:
                await row.run(remaining.popleft())

        while remaining and left:
            if row.times < ALIKE:
                await run_concurrently([work] * min(MAX_DELETIONS, len(remaining)))
            else:
                await row.run(remaining.popleft())
                left = left - 1 if row.times else PROBES
        if row.times >= ALIKE:
            self._failing[kind] = (tried or 0) + len(tasks) - len(remaining)
            while len(self._failing) > MOST:
                self._failing.popitem(last=False)
        return row.errors

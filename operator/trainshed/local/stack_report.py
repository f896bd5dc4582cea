r"""Prints what all ranks of a run are doing when the user asks for it: Ctrl-\, or the signal SIGQUIT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from trainshed.api.job import Job
from trainshed.api.objects import Pod
from trainshed.api.signs import RankAt, StackGroup
from trainshed.controller.stack_reads import StackReads
from trainshed.local.runtimes.protocol import RuntimeContainer, StartFailed
from trainshed.views.rows import listed

from . import tasks
from .options import LocalJob
from .output import Output

if TYPE_CHECKING:
    from trainshed.api.actions import Snapshot
    from trainshed.controller.cache import Cache
    from trainshed.views.rank_stacks import Result

#: Replicas that are read at a time, fewer than commands of an engine run at once, because others must not wait for
#: these; and the seconds after which one is given up.
AT_ONCE, SECONDS = 4, 60.0


class StackReport:
    """Reads the stacks of the replicas of some jobs.

    `find` returns the running container of a pod, the first one if it has no name; None if it does not run.
    """

    def __init__(
        self, jobs: Iterable[LocalJob], find: Callable[[str, str], RuntimeContainer | None], output: Output
    ) -> None:
        self._jobs, self._find, self._output = tuple(jobs), find, output
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._task: asyncio.Task[None] | None = None

    def show(self) -> None:
        """Print the stacks as soon as they are read; nothing more while some are being read."""
        if self._task is None or self._task.done():
            self._task = tasks.start(self._show(), "stacks")

    def listen(self, loop: asyncio.AbstractEventLoop, cache: Cache, watchers: list[Callable[[Snapshot], None]]) -> None:
        """Show the stacks at SIGQUIT; read those of a job that hangs before it restarts."""
        signal.signal(signal.SIGQUIT, lambda *_: loop.is_closed() or loop.call_soon_threadsafe(self.show))
        StackReads(self.read, lambda _job: True).watch(cache, watchers)

    async def read(self, job: Job, pods: tuple[Pod, ...]) -> tuple[StackGroup, ...]:
        """Return where the ranks of a job are; raises `StacksError`."""
        from trainshed.progress.stack_frames import StacksError, grouped  # noqa: PLC0415 - few runs need it
        from trainshed.views import rank_stacks as view  # noqa: PLC0415 - as above

        own = next(item.framework.container.name for item in self._jobs if item.job.name == job.name)
        running = [(pod, found) for pod in pods if (found := self._find(pod.name, own) or self._find(pod.name, ""))]
        results = await asyncio.gather(*(self._read(container) for _, container in running))
        ranks = [
            (pod, rank)
            for (pod, _), result in zip(running, results, strict=True)
            if not isinstance(result, Exception)
            for rank in view.ranks_of(pod.name, result)
        ]
        stacks = [(_rank_at(index, pod, rank.process.rank), rank.frames) for index, (pod, rank) in enumerate(ranks)]
        if not any(frames for _, frames in stacks):
            errors = [str(one) for one in results if isinstance(one, Exception)]
            errors += [rank.process.error for _, rank in ranks if rank.process.error]
            raise StacksError(next(iter(errors), "no Python process runs"))
        return grouped(stacks)

    def close(self) -> None:
        """Read no more."""
        if self._task:
            self._task.cancel()

    async def _show(self) -> None:
        from trainshed.views import rank_stacks as view  # noqa: PLC0415 - few runs need it

        found = await self.found()
        if not found:
            self._output.say("no replica runs, so there are no stacks")
            return
        ranks = view.ranks_in(found)
        if groups := view.grouped(ranks):
            for line in (view.headline(groups), *view.lines(groups, whole=False)):
                self._output.say(line)
        for reason, names in view.without_stacks(found, ranks).items():
            self._output.say(f"no stack of {listed(names)}: {reason}")

    async def found(self, job: str = "") -> dict[str, Result]:
        """Return what the replicas of one job, or of all, that run are doing, by their names in lines of output."""
        containers = self._containers(job)
        results = await asyncio.gather(*map(self._read, containers.values()))
        return dict(zip(containers, results, strict=True))

    def _containers(self, job: str) -> dict[str, RuntimeContainer]:
        found = {}
        wanted = [item for item in self._jobs if job in ("", item.job.name)]
        for item in wanted:
            for pod in item.pod_names:
                name = pod.removeprefix(f"{item.job.name}-") if len(wanted) == 1 else pod
                if container := self._find(pod, item.framework.container.name) or self._find(pod, ""):
                    found[name] = container
        return found

    async def _read(self, container: RuntimeContainer) -> Result:
        from trainshed.views import rank_stacks as view  # noqa: PLC0415 - few runs need it

        async with self._turn:
            try:
                return view.parse((await tasks.within(container.stacks(), SECONDS)).encode().splitlines())
            except TimeoutError:
                return view.NotRead(f"it could not be read within {SECONDS:.0f} s")
            except (StartFailed, view.NotRead) as error:
                return error


def _rank_at(index: int, pod: Pod, rank: str) -> RankAt:
    return RankAt(int(rank[:9]) if rank.isdecimal() else index, "", pod.name, pod.node)

"""What the ranks of a job are doing: their stacks in groups, so that the one that does something else is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.plan.messages.phrases import plural
from trainshed.progress.stack_frames import (
    MOST_FRAMES,
    MOST_TEXT,
    Frame,
    is_library,
    is_users,
    place_of,
    waits,
    where,
)

from .rows import NAMED, listed

#: The most processes of a replica that are kept. `trainshed.stack_dump` prints as many, and another program may have
#: taken its place.
MOST_PROCESSES = 64
#: The most frames of a group that are shown, unless all are wanted, and the most groups.
SHOWN, GROUPS = 6, 64


class Thread(msgspec.Struct, frozen=True):
    """A thread of a process, its innermost frame first; `main` is the one that the process began with."""

    name: str
    main: bool
    frames: tuple[Frame, ...]


class PythonProcess(msgspec.Struct, frozen=True):
    """A Python process as `trainshed.stack_dump` describes it; with `error` it has no threads."""

    pid: int
    parent: int = 0
    command: str = ""
    rank: str = msgspec.field(default="", name="RANK")
    local_rank: str = msgspec.field(default="", name="LOCAL_RANK")
    threads: tuple[Thread, ...] = ()
    error: str = ""


class Rank(msgspec.Struct, frozen=True):
    """A process that trains, under the name of its replica."""

    name: str
    process: PythonProcess

    @property
    def frames(self) -> tuple[Frame, ...]:
        """What its first thread does."""
        return next((thread.frames for thread in self.process.threads if thread.main), ())


class RankGroup(msgspec.Struct, frozen=True):
    """Ranks that are at the same place."""

    frames: tuple[Frame, ...]
    ranks: tuple[Rank, ...]

    @property
    def place(self) -> Frame | None:
        """The innermost frame that is not Python's own, where there is one."""
        return place_of(self.frames)

    @property
    def waits(self) -> bool:
        """Whether the ranks wait for all others."""
        return waits(self.frames)


class NotRead(Exception):
    """The stacks of a replica are not known; the message says why."""


#: What is known of a replica: its processes, or why they are not known.
Result = Sequence[PythonProcess] | Exception


class ReplicaStacks(msgspec.Struct, frozen=True):
    """What was read of the replicas of a job, by their names, and what to do about those that could not be read.

    `left` is how many that run were not asked.
    """

    found: Mapping[str, Result]
    left: int = 0
    advice: tuple[str, ...] = ()


def parse(output: Iterable[bytes], threads: int = 1) -> list[PythonProcess]:
    """Return the processes that `trainshed.stack_dump` has printed; raises `NotRead` if that is something else.

    Of each process the first `threads` are kept.
    """
    found: list[PythonProcess] = []
    for line in output:
        if not line.startswith((b'{"pid"', b'{"left_out"')):
            raise NotRead(one_line(line.decode(errors="replace"), 300))
        if line.startswith(b'{"pid"') and len(found) < MOST_PROCESSES:
            try:
                found.append(_bounded(msgspec.json.decode(line, type=PythonProcess), threads))
            except msgspec.DecodeError as error:
                if not found:  # otherwise it is the last line, which the API server has cut
                    raise NotRead(f"its output is not what trainshed.stack_dump prints: {error}") from error
    return found


def _bounded(process: PythonProcess, threads: int) -> PythonProcess:
    return msgspec.structs.replace(
        process,
        command=process.command[:MOST_TEXT],
        rank=process.rank[:MOST_TEXT],
        local_rank=process.local_rank[:MOST_TEXT],
        threads=tuple(map(_bounded_thread, process.threads[:threads])),
        error=process.error[:MOST_TEXT],
    )


def _bounded_thread(thread: Thread) -> Thread:
    frames = thread.frames[:MOST_FRAMES]
    shown = tuple(Frame(frame.function[:MOST_TEXT], frame.path[:MOST_TEXT], frame.line) for frame in frames)
    return Thread(thread.name[:MOST_TEXT], thread.main, shown)


def ranks_in(found: Mapping[str, Result]) -> list[Rank]:
    """Return the processes that train, of all replicas that are known."""
    known = ((replica, result) for replica, result in found.items() if not isinstance(result, Exception))
    return [rank for replica, result in known for rank in ranks_of(replica, result)]


def without_stacks(found: Mapping[str, Result], ranks: Iterable[Rank]) -> dict[str, list[str]]:
    """Return the names of replicas and ranks whose stacks are not known, by the reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for rank in ranks:
        if not rank.frames:
            reasons[one_line(rank.process.error) or "its first thread runs no Python"].append(rank.name)
    for replica, result in found.items():
        if isinstance(result, Exception):
            reasons[one_line(str(result))].append(replica)
        elif not result:
            reasons["no Python process runs in the container"].append(replica)
    return reasons


def ranks_of(replica: str, processes: Sequence[PythonProcess]) -> list[Rank]:
    """Return the processes of a replica that train: not launchers such as torchrun, and no loaders of data.

    They are those with LOCAL_RANK, or without any such all, but not the children of another one.
    """
    marked = [process for process in processes if process.local_rank] or list(processes)
    known = {process.pid for process in marked}
    parents = {process.pid: process.parent for process in processes}
    found = [process for process in marked if not _has_ancestor(process.pid, known, parents)]
    return [Rank(_name(replica, process, several=len(found) > 1), process) for process in found]


def _has_ancestor(pid: int, known: set[int], parents: dict[int, int]) -> bool:
    seen = {pid}
    while (pid := parents.get(pid, 0)) and pid not in seen:
        if pid in known:
            return True
        seen.add(pid)
    return False


def _name(replica: str, process: PythonProcess, *, several: bool) -> str:
    if not several:
        return replica
    return f"{replica}/rank {one_line(process.rank, 12)}" if process.rank else f"{replica}/pid {process.pid}"


def grouped(ranks: Iterable[Rank]) -> list[RankGroup]:
    """Return the ranks by where they are, the largest group first: by the place, and the user's line that led there."""
    found: dict[object, list[Rank]] = {}
    for rank in ranks:
        if rank.frames:
            found.setdefault(where(rank.frames), []).append(rank)
    groups = [RankGroup(members[0].frames, tuple(members)) for members in found.values()]
    return sorted(groups, key=lambda group: -len(group.ranks))


def headline(groups: Sequence[RankGroup]) -> str:
    """Return in one sentence what the ranks are doing, and which of them others wait for."""
    parts = [f"{_who(group)} {'is' if len(group.ranks) == 1 else 'are'} in {_function(group)}" for group in groups]
    waiting, busy = [group for group in groups if group.waits], [group for group in groups if not group.waits]
    text = ", ".join(parts[:NAMED]) + (f", and {_more(len(parts) - NAMED, 'group')}" if len(parts) > NAMED else "")
    if waiting and busy:
        others = "others" if sum(len(group.ranks) for group in waiting) > 1 else "other"
        return f"{text}. The {others} may be waiting for {_names([rank for group in busy for rank in group.ranks])}."
    return f"{text}."


def _function(group: RankGroup) -> str:
    return one_line(group.place.function if group.place else "nothing", 80)


def _who(group: RankGroup) -> str:
    return group.ranks[0].name if len(group.ranks) == 1 else f"{len(group.ranks)} ranks"


def _names(ranks: Sequence[Rank]) -> str:
    return listed([rank.name for rank in ranks])


def lines(groups: Sequence[RankGroup], *, whole: bool, option: str = "") -> list[str]:
    """Return the groups with their stacks, the innermost frame first, and only the important ones if not `whole`.

    The `option` is the one that shows all.
    """
    found = []
    for group in groups[:GROUPS]:
        found.append(who(group))
        frames = group.frames if whole else important(group.frames)
        found += [f"    {frame}" for frame in frames]
        if len(frames) < len(group.frames):
            found.append(f"    … {_more(len(group.frames) - len(frames), 'frame')}{option and f' ({option})'}")
        found.append("")
    return [*found, f"… {_more(len(groups) - GROUPS, 'group')}"] if len(groups) > GROUPS else found[:-1]


def who(group: RankGroup) -> str:
    """Return how many ranks a group has, and which."""
    return f"{plural(len(group.ranks), 'rank')}: {_names(group.ranks)}"


def important(frames: Sequence[Frame]) -> list[Frame]:
    """Return the place, the frames of the user above it, and what is between them if that is short."""
    start = next((number for number, frame in enumerate(frames) if not is_library(frame.path)), 0)
    own = [number for number, frame in enumerate(frames) if number > start and is_users(frame.path)]
    if own and own[0] - start < SHOWN:
        return list(frames[start : own[0] + SHOWN])[:SHOWN]
    return [frames[start], *(frames[number] for number in own)][:SHOWN]


def _more(count: int, noun: str) -> str:
    return f"{count} more {noun}{'' if count == 1 else 's'}"

"""The frames of a Python stack: what belongs to Python, to packages and to the user, and where a rank waits."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePosixPath

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.api.signs import RankAt, StackGroup

#: The folders of installed packages, and of Python's own modules.
PACKAGES = re.compile(r"/(?:site|dist)-packages/")
LIBRARY = re.compile(r"/lib(?:64)?/python3[^/]*/|^(?=<frozen )")
#: The functions of frameworks in which a rank waits for all others.
COLLECTIVES = (
    *("all_reduce", "reduce", "barrier", "monitored_barrier", "broadcast", "all_gather", "gather", "scatter"),
    *("all_to_all", "reduce_scatter", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"),
    *("allreduce", "allgather", "alltoall", "sync_global_devices", "init_process_group", "rendezvous"),
)
#: What is kept of a stack: frames of a thread, and characters of a text.
MOST_FRAMES, MOST_TEXT = 60, 300
#: The most groups that are kept, and those that are returned, the ranks of one, and the characters of a frame.
KEPT_GROUPS, GROUPS, RANKS, FRAME = 64, 8, 3, 120


class StacksError(Exception):
    """The stacks of the ranks are not known; the message is one sentence."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A function that is being called, the path of its file, and the line."""

    function: str
    path: str
    line: int

    def __str__(self) -> str:
        return one_line(f"{self.function} ({short_path(self.path)}:{self.line})")


def short_path(path: str) -> str:
    """Return the path of a module below the folder of packages or of Python, or else only its last part."""
    for folder in (PACKAGES, LIBRARY):
        if folder.search(path):
            return folder.split(path)[-1]
    return PurePosixPath(path).name


def is_library(path: str) -> bool:
    """Return whether a file belongs to Python itself."""
    return bool(LIBRARY.search(path)) and not PACKAGES.search(path)


def is_users(path: str) -> bool:
    """Return whether a file is neither of Python nor of an installed package."""
    return not LIBRARY.search(path) and not PACKAGES.search(path)


def place_of(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame that is not Python's own, where there is one."""
    return next((frame for frame in frames if not is_library(frame.path)), next(iter(frames), None))


def users_of(frames: Iterable[Frame]) -> Frame | None:
    """Return the innermost frame of the user's own code."""
    return next((frame for frame in frames if is_users(frame.path)), None)


def where(frames: Sequence[Frame]) -> Hashable:
    """Return what ranks at the same place have in common: the place, and the user's line that led there."""
    place = place_of(frames)
    return place and (place.function, place.path), users_of(frames)


def waits(frames: Iterable[Frame]) -> bool:
    """Return whether a rank with these frames waits for all others."""
    return any(frame.function.rpartition(".")[2] in COLLECTIVES for frame in frames)


class _Group(msgspec.Struct):
    frames: tuple[Frame, ...]
    count: int = 0
    ranks: tuple[RankAt, ...] = ()


def grouped(stacks: Iterable[tuple[RankAt, tuple[Frame, ...]]]) -> tuple[StackGroup, ...]:
    """Return the ranks by where they are: first those without frames, last those that wait for others."""
    found: dict[Hashable, _Group] = {}
    for rank, frames in stacks:
        key = where(frames)
        if key not in found and len(found) >= KEPT_GROUPS:
            continue
        group = found.setdefault(key, _Group(frames))
        group.count += 1
        group.ranks = (*group.ranks, rank)[:RANKS]
    groups = [_stack_group(group) for group in found.values()]
    return tuple(sorted(groups, key=lambda one: (bool(one.place), one.waits, one.count))[:GROUPS])


def _stack_group(group: _Group) -> StackGroup:
    place, own = place_of(group.frames), users_of(group.frames)
    by = own if own != place else None
    place_text, by_text = (one_line(str(frame), FRAME) if frame else "" for frame in (place, by))
    return StackGroup(group.count, group.ranks, place_text, by_text, waits=waits(group.frames))

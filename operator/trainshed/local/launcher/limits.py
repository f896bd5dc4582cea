"""Limits of processes on this machine: processors by affinity, memory by looking. The launcher uses it."""

from __future__ import annotations

import contextlib
import math
import os
import resource
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

KIB = 1024


class Processors:
    """Gives each container with a limit as many processors as it may use, those first that fewest others have."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._users = Counter(dict.fromkeys(sorted(numbers), 0))

    def take(self, limit: float) -> list[int]:
        """Return the numbers of the processors for a limit; none if it is 0, or no limit on this machine."""
        count = math.ceil(limit)
        if not 0 < count < len(self._users):
            return []
        taken = sorted(self._users, key=lambda number: (self._users[number], number))[:count]
        self._users.update(taken)
        return taken

    def release(self, numbers: Iterable[int]) -> None:
        """Return the processors of a container that has ended."""
        self._users.subtract(numbers)


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use; none where that is not known, as on macOS."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def raise_files() -> int:
    """Let this process open as many files as it may, as each replica has some; return how many it could so far."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS does not take every number
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return before


def limit_files(number: int) -> None:
    """Let this process open so many files again."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, most))


def exceeds(pids: Iterable[int], limit: int) -> bool:
    """Return whether processes together use more bytes of memory than a limit.

    That is memory which the kernel cannot drop: no files. Pages that processes share after a fork count once, which
    takes long to find out, so that a sum is looked at first in which they count several times.
    """
    pids = list(pids)
    if sum(_read(pids, "status", ("RssAnon", "RssShmem"))) <= limit:
        return False
    return sum(_read(pids, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"))) > limit


def _read(pids: Iterable[int], file: str, fields: tuple[str, ...]) -> Iterator[int]:
    """Yield the values of fields of files in /proc, in bytes."""
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in fields:
                    yield int(value.split()[0]) * KIB

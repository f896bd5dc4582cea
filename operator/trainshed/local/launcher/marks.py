"""The mark of a container, which all its processes inherit. The launcher uses it: only standard library."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

from .process_tree import kill_if, look, parents_first

#: RLIMIT_LOCKS, by which Linux has limited nothing since 2.4.25. A process keeps it in a new session or group, without
#: its parent, and without its variables, and can only lower it.
LIMIT = 10
#: The variable that has the mark where this limit cannot be set, after those of launchers in whose containers this is.
VARIABLE = "TRAINSHED_CONTAINER"
#: The bits of the number of a container, and those of a number that no other launcher has.
BITS, TOKEN_BITS = 32, 30


class Marks:
    """The marks of the containers of one launcher."""

    def __init__(self) -> None:
        self._last = 0
        self._limited = False
        token = 1 << TOKEN_BITS
        with contextlib.suppress(OSError, ValueError, AttributeError):  # AttributeError: macOS, without /proc too
            most = resource.prlimit(0, LIMIT)[1]
            token = token if most == resource.RLIM_INFINITY else min(most >> BITS, token)
            resource.setrlimit(LIMIT, (most, most))
            self._limited = token > 1
        self._token = secrets.randbelow((token if self._limited else 1 << TOKEN_BITS) - 1) + 1

    def new(self) -> int:
        """Return the number of a new container."""
        self._last += 1
        return self._last

    def put(self, number: int, env: dict[str, str]) -> None:
        """Mark this process with the number of its container, and what it will start with these variables."""
        mark = self._token << BITS | number
        env[VARIABLE] = ",".join(filter(None, (os.environ.get(VARIABLE), str(mark))))
        if self._limited:
            resource.setrlimit(LIMIT, (mark, mark))

    def kill_others(self, living: Collection[int]) -> frozenset[int]:
        """Kill the processes of all containers but these, parents first; return the containers that had some."""
        names = os.listdir("/proc") if os.path.isdir("/proc/self") else ()  # noqa: PTH112, PTH208 - as `process_tree`
        known = {pid: self._number(pid) for pid in map(int, filter(str.isdecimal, names))}
        found = {pid: look(pid) for pid, number in known.items() if number and number not in living}
        for pid in parents_first(found):
            kill_if(pid, lambda pid: self._number(pid) == known[pid])
        return frozenset(known[pid] for pid, process in found.items() if process)

    def _number(self, pid: int) -> int:
        """Return the number of the container of a process, 0 without one of this launcher."""
        for mark in self._of(pid):
            if mark >> BITS == self._token:
                return mark & (1 << BITS) - 1
        return 0

    def _of(self, pid: int) -> Iterator[int]:
        """Yield the marks of a process. A launcher in a container sets limits of its own; the variable has all."""
        limits = [*_of_limit(pid)] if self._limited else []
        yield from limits
        if not self._limited or any(mark >> BITS not in (0, self._token) and mark > 0 for mark in limits):
            yield from _of_variable(pid)


def _of_limit(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has ended, or acts as another user
        yield resource.prlimit(pid, LIMIT)[1]


def _of_variable(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name == VARIABLE.encode():
                yield from map(int, filter(bytes.isdigit, value.split(b",")))

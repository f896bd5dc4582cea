"""The mark of a container, which all its processes inherit. The launcher uses it: only standard library."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
from collections.abc import Collection, Iterable, Iterator

from .process_tree import descends, kill_found, variables

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
        """Kill the processes of all containers but these, parents first; return the containers that had some.

        Those are all of them while a process may be of any: one that begins another program shows no mark.
        """

        def wanted(pid: int) -> int | None:
            number = self._number(pid)
            if number is None:
                return None if descends(pid, os.getpid()) else 0
            return 0 if number in living else number

        left = kill_found(wanted)
        if None in left:
            return frozenset({*range(1, self._last + 1)}.difference(living))
        return frozenset(number for number in left if number)

    def _number(self, pid: int) -> int | None:
        """Return the number of the container of a process, 0 without one of this launcher; None if it is not known.

        Raises ProcessLookupError if it has ended.
        """
        limits = [*_of_limit(pid)] if self._limited else []
        if (own := self._own(limits)) or (self._limited and not self._is_others(limits)):
            return own
        # A launcher in a container sets limits of its own; the variable has all marks.
        found = variables(pid)
        return None if found is None else self._own(_of_variable(found))

    def _own(self, marks: Iterable[int]) -> int:
        """Return the number of the container of this launcher that has one of these marks, or 0."""
        return next((mark & (1 << BITS) - 1 for mark in marks if mark >> BITS == self._token), 0)

    def _is_others(self, limits: Iterable[int]) -> bool:
        """Return whether a limit is the mark of another launcher."""
        return any(mark >> BITS not in (0, self._token) and mark > 0 for mark in limits)


def _of_limit(pid: int) -> Iterator[int]:
    with contextlib.suppress(PermissionError):  # it acts as another user
        yield resource.prlimit(pid, LIMIT)[1]


def _of_variable(found: Iterable[bytes]) -> Iterator[int]:
    for variable in found:
        name, _, value = variable.partition(b"=")
        if name == VARIABLE.encode():
            yield from map(int, filter(bytes.isdigit, value.split(b",")))

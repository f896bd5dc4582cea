"""The states that were seen already, known to all processes of a search."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

WORD = struct.Struct("<Q")


class Seen:
    """A set of 64-bit numbers other than 0 in memory that children share; it holds `room` of them, a power of two.

    With a `file` it is kept there, and has what was kept before.
    """

    def __init__(self, room: int = 1 << 22, file: Path | None = None) -> None:
        self._room = room
        if file is None:
            self._memory = mmap.mmap(-1, room * WORD.size)
            return
        with file.open("a+b") as kept:
            kept.truncate(room * WORD.size)
            self._memory = mmap.mmap(kept.fileno(), room * WORD.size)

    def copy(self, other: Seen) -> None:
        """Have what another set of the same size has, and nothing else."""
        self._memory[:] = other._memory[:]

    def add(self, number: int) -> bool:
        """Whether it was new. Two processes at the same moment may both be told so, and do the same work twice."""
        place = number % self._room
        for step in range(self._room):
            at = (place + step) % self._room * WORD.size
            (found,) = WORD.unpack_from(self._memory, at)
            if found == number:
                return False
            if not found:
                WORD.pack_into(self._memory, at, number)
                return True
        raise MemoryError(f"more than {self._room} states")

    def __len__(self) -> int:
        return sum(1 for (number,) in WORD.iter_unpack(self._memory[:]) if number)

"""The log of a container: a file that is continued in a new one when it is large, as a kubelet does it."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path

#: How the file is opened.
OPEN = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
#: The bytes after which a new file begins, and the number of files that are kept: the defaults of
#: `containerLogMaxSize` and `containerLogMaxFiles` in the configuration of a kubelet.
LARGEST, FILES = 10 << 20, 5
#: The bytes that are kept.
KEPT = LARGEST * FILES
#: The bytes by which a file may be larger, so that it ends with a line.
LINE = 1 << 16


class LogFile:
    """A file of bytes at `path`; older parts of it have the suffixes .1, which is the newest of them, to .4.

    Its bytes are numbered from the first one that was written; `size` is the number of the next one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: The numbers of the first bytes of all files that are kept, the newest file first.
        self._starts = deque([0], FILES)
        self._open()
        self.size = self._size

    @property
    def oldest(self) -> int:
        """The number of the first byte that is kept."""
        return self._starts[-1]

    def read(self, start: int, most: int) -> bytes:
        """Return bytes from `start` on, not more than so many; those that are not kept are left out; raises OSError."""
        found = b""
        for number in reversed(range(len(self._starts))):
            first, end = self._starts[number], self._starts[number - 1] if number else self.size
            begin, stop = max(start, first), min(start + most, end)
            if begin < stop:
                path = self._path.with_name(f"{self._path.name}.{number}") if number else self._path
                with open(path, "rb", opener=_without_links) as file:
                    file.seek(begin - first)
                    found += file.read(stop - begin)
        return found

    def write(self, chunk: bytes) -> None:
        """Append bytes, and begin a new file after a line where that is due; raises OSError."""
        if self._size + len(chunk) > LARGEST:
            end = chunk.find(b"\n") + 1
            if end or self._size > LARGEST + LINE:
                self._append(chunk[:end])
                self._rotate()
                chunk = chunk[end:]
        self._append(chunk)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> None:
        self._file = os.fdopen(os.open(self._path, OPEN, 0o600), "ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size

    def _append(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._size += len(chunk)
        self.size += len(chunk)

    def _rotate(self) -> None:
        self._file.close()
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{number}") for number in range(1, FILES))]
        for newer, older in zip(names[-2::-1], names[:0:-1], strict=True):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        self._starts.appendleft(self.size)
        self._open()


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)

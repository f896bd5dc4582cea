"""The log of a container: a file that is continued in a new one when it is large, as a kubelet does it."""

from __future__ import annotations

import contextlib
import os
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
    """A file of bytes at `path`; older parts of it have the suffixes .1, which is the newest of them, to .4."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

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

    def _rotate(self) -> None:
        self._file.close()
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{number}") for number in range(1, FILES))]
        for newer, older in zip(names[-2::-1], names[:0:-1], strict=True):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        self._open()

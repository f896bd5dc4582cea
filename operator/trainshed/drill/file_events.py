"""What is written below folders, as Linux reports it (inotify): which file, when, and whether it took another's place.

Where the system has no inotify, nothing is seen, and `problem` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from zlib import crc32

import msgspec

from trainshed.local.paths import opened

#: Events of inotify (linux/inotify.h): a file or folder is created, changed, closed, renamed away and to.
CREATE, MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO = 0x100, 0x002, 0x008, 0x040, 0x080
IS_DIRECTORY, OVERFLOW = 0x40000000, 0x4000
ONLY_FOLDERS, NO_LINKS = 0x01000000, 0x02000000
WANTED = CREATE | MODIFY | CLOSE_WRITE | MOVED_FROM | MOVED_TO
FLAGS = ctypes.c_uint32(WANTED | ONLY_FOLDERS | NO_LINKS)
HEAD = struct.Struct("iIII")
#: The part of its size with which a file may be complete.
NEARLY = 0.9
#: The most folders that are watched, and events that are kept; the bytes by which a file is known again; bytes read.
MOST_FOLDERS, MOST_EVENTS, BEGINNING, CHUNK = 5_000, 50_000, 4_096, 1 << 16


class FileEvent(msgspec.Struct, frozen=True):
    """Something was written at a path; `renamed` is whether a whole file was moved there.

    `grown` is whether the file has become longer since the last time and has the same beginning, `rewritten` whether
    what was in it is gone.
    """

    at: float
    path: str
    kind: int
    grown: bool = False
    rewritten: bool = False

    @property
    def renamed(self) -> bool:
        """Whether a whole file took this place."""
        return self.kind == MOVED_TO


class FileEvents:
    """Keeps the events of files below folders; `on_write` is called with the path of each file that is being written.

    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._descriptor = -1
        self._folders: dict[int, Path] = {}
        self._contents: dict[str, tuple[int, int]] = {}
        self._complete: dict[str, int] = {}
        self.found: list[FileEvent] = []
        self.problem = ""
        self.on_write: Callable[[Path], None] = lambda _path: None

    def start(self, folders: Iterable[Path]) -> None:
        """Begin to watch folders, and all folders in them."""
        if sys.platform != "linux":
            self.problem = "this system does not say which files are written"
            return
        try:
            self._descriptor = _inotify("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:  # the programs of a user may have few, as fs.inotify.max_user_instances says
            self.problem = f"inotify cannot be used, and so no write is seen: {error.strerror}"
            return
        for folder in folders:
            self._add(folder)
        asyncio.get_running_loop().add_reader(self._descriptor, self.catch_up)

    def stop(self) -> None:
        """Read what is left, and end."""
        if self._descriptor >= 0:
            self.catch_up()
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _add(self, folder: Path) -> None:
        """Watch a folder and those in it; files that are there already have been written since it was made."""
        if len(self._folders) >= MOST_FOLDERS:
            self.problem = f"the job writes in more than {MOST_FOLDERS} folders, of which not all are watched"
            return
        try:
            number = _inotify("inotify_add_watch", self._descriptor, os.fsencode(folder), FLAGS)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                self.problem = f"{folder} cannot be watched: {error.strerror}"
            return
        self._folders[number] = folder
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self._add(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    self._note(Path(entry.path), CREATE)

    def catch_up(self) -> None:
        """Take what has happened."""
        with contextlib.suppress(BlockingIOError):
            while True:
                data, at = os.read(self._descriptor, CHUNK), 0
                while at < len(data):
                    watch, kind, _, length = HEAD.unpack_from(data, at)
                    name = data[at + HEAD.size : at + HEAD.size + length].rstrip(b"\0")
                    at += HEAD.size + length
                    self._take(watch, kind, os.fsdecode(name))

    def _take(self, watch: int, kind: int, name: str) -> None:
        if kind & OVERFLOW:
            self.problem = "more was written than could be followed"
        if not name or watch not in self._folders:
            return
        path = self._folders[watch] / name
        if not kind & IS_DIRECTORY:
            self._note(path, kind & WANTED)
        elif kind & (CREATE | MOVED_TO):
            self._add(path)

    def _note(self, path: Path, kind: int) -> None:
        (grown, rewritten), last = self._change(path), self.found[-1] if self.found else None
        if last and (last.path, last.kind, kind) == (str(path), MODIFY, MODIFY):
            self.found.pop()  # all changes of a file in a row are one
            grown, rewritten = grown or last.grown, rewritten or last.rewritten
        if len(self.found) < MOST_EVENTS:
            self.found.append(FileEvent(self._clock(), str(path), kind, grown, rewritten))
        else:
            self.problem = f"of more than {MOST_EVENTS} writes the later ones were not followed"
        if kind == CLOSE_WRITE:
            self._complete |= dict.fromkeys((str(path), path.suffix), self._contents.get(str(path), (0, 0))[0])
        if kind & (CREATE | MODIFY):
            self.on_write(path)

    def is_complete(self, path: Path) -> bool:
        """Return whether a file has about the size that it, or else the last one with its suffix, had in the end."""
        size = self._complete.get(str(path), self._complete.get(path.suffix, 0))
        with contextlib.suppress(OSError):
            return bool(size) and path.lstat().st_size >= NEARLY * size
        return False

    def _change(self, path: Path) -> tuple[bool, bool]:
        """Return whether a file is longer than when it was read before, and whether what was in it then is gone."""
        known, checksum = self._contents.get(str(path), (0, 0))
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                size, content = os.fstat(descriptor).st_size, os.read(descriptor, BEGINNING)
            finally:
                os.close(descriptor)
            self._contents[str(path)] = (size, crc32(content))
            same = size >= known and crc32(content[:known]) == checksum
            return same and size > known, not same
        return False, False


def writers(path: Path) -> list[int] | None:
    """Return the processes that have a file open and may write it, None where that cannot be seen."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return [pid for pid in _own_processes() if _writes(pid, (found.st_dev, found.st_ino))]
    return None


def empty(root: Path, path: Path) -> None:
    """Empty a file below a folder; raises OSError, also if a link leads there or has another name for it.

    A container may put links in its volumes, and what they lead to is none of its files.
    """
    *folders, name = path.relative_to(root).parts
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(opened(root))
        for part in folders:
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, folder)
        file = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        stack.callback(os.close, file)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), str(path))
        os.ftruncate(file, 0)


def _own_processes() -> Iterable[int]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            yield int(entry.name)


def _writes(pid: int, file: tuple[int, int]) -> bool:
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat()
                if (found.st_dev, found.st_ino) == file:
                    flags = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().split("flags:")[1].split()[0]
                    if int(flags, 8) & os.O_ACCMODE:
                        return True
    return False


def _inotify(name: str, *arguments: object) -> int:
    """Call a function of inotify; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(getattr(libc, name)(*arguments))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found

"""What is mounted where: nothing is removed or written across a mount, whose files are others'."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

#: What /proc says of an open file, and of all mounts; the fifth field of a line is where one is.
FILE, MOUNTS, WHERE = "/proc/self/fdinfo/{}", Path("/proc/self/mountinfo"), 4
#: A character of a path that would end its field in the list of mounts.
ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_of(descriptor: int) -> str:
    """Return what tells the mount of an open file or folder from others that exist.

    A device is not enough: a part of a file system may be mounted in another part of it. It is what there is where
    /proc does not show more, as on macOS, which has no such mounts.
    """
    with contextlib.suppress(OSError), Path(FILE.format(descriptor)).open("rb") as lines:
        for line in lines:
            if line.startswith(b"mnt_id:"):
                return line[7:].strip().decode()
    return f"device {os.fstat(descriptor).st_dev}"


def stay_in(mount: str, descriptor: int, name: str) -> None:
    """Raise OSError if an open file or folder is not in this mount."""
    if mount_of(descriptor) != mount:
        raise OSError(errno.EXDEV, "something is mounted here", name)


def mounts_below(folder: Path) -> list[Path]:
    """Return where something is mounted at or below a folder, what covers or is in another mount after that."""
    top = os.fsencode(os.path.realpath(folder))
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return _found_by_walk(folder)
    paths = (ESCAPED.sub(lambda found: bytes((int(found[1], 8),)), line.split(b" ")[WHERE]) for line in lines)
    return [Path(os.fsdecode(path)) for path in paths if path == top or path.startswith(top + b"/")]


def _found_by_walk(folder: Path) -> list[Path]:
    found = [folder] if os.path.ismount(folder) else []
    for where, names, _ in os.walk(folder):
        mounted = [name for name in names if os.path.ismount(f"{where}/{name}")]
        found += [Path(where, name) for name in mounted]
        names[:] = [name for name in names if name not in mounted]  # these are not entered
    return found

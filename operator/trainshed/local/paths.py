"""Files and folders below a folder, opened step by step so that no symbolic link leads out of it.

Each part of a path is opened relative to the part before and is itself no link; links are read and walked in the same
way, and `..` in them goes back to a folder that was walked through. So it makes no difference what others change
meanwhile, on every system: Linux has the same as one call, openat2 with RESOLVE_BENEATH, which not every kernel and
container permits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .mounts import mount_of, stay_in

#: Opens a folder that need not be readable, where the system can do that.
SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Opens a folder whose mode can be changed.
READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: What the system says of a part of a path that is no folder.
NO_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
LEADS_OUT = "leads out of its volume"
#: The links that a path may go through, as in Linux.
MOST_LINKS = 40
#: What the names of unfinished files begin with; a file of a volume cannot have such a name.
UNFINISHED = ".."
#: How deep folders are entered to empty them, deeper ones are moved up first; and how often that is done at most.
DEEP, ROUNDS = 50, 10_000


@dataclass(frozen=True, slots=True)
class Creation:
    """The modes of what a path lacks: of its folders, and of a file at its end if that is wanted."""

    folders: int
    file: int | None = None


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Open a folder to which paths are relative; raises OSError. The user has chosen it: links in its path count."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def resolve(root: Path, path: str, creation: Creation | None = None, *, links: bool = False) -> Path:
    """Return the path without links of what is at a relative path below a root; raises OSError.

    What is missing is created if there is a `creation`. Links are errors, or with `links` are followed as long as they
    do not lead out of the root.
    """
    with opened(root) as descriptor, contextlib.ExitStack() as stack:
        walk = _Walk(stack, descriptor, creation, _parts(path))
        while walk.left:
            if not walk.step():
                walk.follow(links=links)
        return Path(os.path.realpath(root), *walk.names)


class _Walk:
    """The folders that a path has gone through, each open, and the parts that are left of it."""

    def __init__(self, stack: contextlib.ExitStack, root: int, creation: Creation | None, left: list[str]) -> None:
        self._stack = stack
        self._folders = [root]
        self._creation = creation
        self._links = 0
        self.names: list[str] = []
        self.left = left

    def step(self) -> bool:
        """Walk through the next part; return False if it is a link. Raises OSError."""
        name, last = self.left[0], len(self.left) == 1
        if name == "..":
            self._back()
            return True
        try:
            self._enter(name, last=last)
        except OSError as error:
            if error.errno not in NO_FOLDER:
                raise
            if stat.S_ISLNK(os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode):
                return False
            if not last:
                raise
        self.names.append(name)
        self.left.pop(0)
        return True

    def follow(self, *, links: bool) -> None:
        """Replace the next part, a link, by what it leads to; raises OSError."""
        name = self.left.pop(0)
        self._links += 1
        if not links or self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, "is a symbolic link", "/".join([*self.names, name]))
        target = os.readlink(name, dir_fd=self._folders[-1])
        if target.startswith("/"):
            raise OSError(errno.EXDEV, LEADS_OUT, name)
        self.left[:0] = _parts(target)

    def _back(self) -> None:
        if not self.names:
            raise OSError(errno.EXDEV, LEADS_OUT, "..")
        self.names.pop()
        self._folders.pop()
        self.left.pop(0)

    def _enter(self, name: str, *, last: bool) -> None:
        """Open the next part if it is a folder; create it if it is missing and wanted. Raises OSError."""
        parent = self._folders[-1]
        try:
            descriptor = os.open(name, SEARCH, dir_fd=parent)
        except FileNotFoundError:
            if self._creation is None:
                raise
            if last and self._creation.file is not None:
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(name, CREATE, self._creation.file, dir_fd=parent))
            else:
                make_folder(parent, name, self._creation.folders)
            descriptor = os.open(name, SEARCH, dir_fd=parent)
        self._stack.callback(os.close, descriptor)
        self._folders.append(descriptor)


def make_folder(parent: int, name: str, mode: int) -> None:
    """Make a folder with this mode, whatever the umask; one that exists stays as it is. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, READ, dir_fd=parent)
        try:
            # As mkdir does, it keeps the bit that gives files in it the group of the folder above.
            os.fchmod(descriptor, mode | os.fstat(descriptor).st_mode & stat.S_ISGID)
        finally:
            os.close(descriptor)


def create(path: Path, modes: Creation) -> None:
    """Make a folder, or a file, and the folders above that are missing, with these modes, whatever the umask.

    What exists stays as it is. Raises OSError.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in (*reversed(missing), *(() if modes.file is not None else (path,))):
        with opened(folder.parent) as parent:
            make_folder(parent, folder.name, modes.folders)
    if modes.file is not None:
        with contextlib.suppress(FileExistsError), os.fdopen(os.open(path, CREATE, 0o600), "wb") as file:
            os.fchmod(file.fileno(), modes.file)


def write(root: int, path: str, content: bytes, modes: Creation) -> None:
    """Write a file below a folder, in one go: no reader sees a part of it. Raises OSError.

    What is in the way is replaced, also by a container that has access: nothing is ever written through a link, nor in
    what it has mounted.
    """
    *folders, name = _parts(path)
    if ".." in (*folders, name):
        raise OSError(errno.EXDEV, LEADS_OUT, path)
    with contextlib.ExitStack() as stack:
        parent, mount = root, mount_of(root)
        for folder in folders:
            parent = _own_folder(parent, folder, modes.folders)
            stack.callback(os.close, parent)
            stay_in(mount, parent, path)
        unfinished = f"{UNFINISHED}{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(unfinished, CREATE, 0o600, dir_fd=parent), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), 0o600 if modes.file is None else modes.file)
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    _remove(parent, name)
            os.rename(unfinished, name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=parent)


def read(path: Path, most: int) -> bytes:
    """Return the first bytes of a file that others can write; none if it is missing or no file, such as a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as the system permits; links in it are removed, not followed.

    Containers can nest folders deeper than `shutil.rmtree` can recurse and than files can be open, and can forbid their
    user to read or change them. What they have mounted in it is not entered, and stays with the folders above it.
    """
    with contextlib.suppress(OSError), opened(folder.parent) as parent:
        _remove(parent, folder.name)


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(OSError):
        mount = mount_of(parent)
        top = _changeable(parent, name, mount)
        try:
            for _ in range(ROUNDS):
                if not _empty(top, top, mount, 0):
                    break
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)


def _empty(top: int, folder: int, mount: str, depth: int) -> bool:
    """Remove what is in a folder; return whether some of it was too deep, and was moved to the folder `top`."""
    moved = False
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        with contextlib.suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                continue
            child = _changeable(folder, entry.name, mount)
            try:
                if depth == DEEP:
                    os.rename(entry.name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
                    moved = True
                    continue
                moved = _empty(top, child, mount, depth + 1) or moved
            finally:
                os.close(child)
            os.rmdir(entry.name, dir_fd=folder)
    return moved


def _changeable(parent: int, name: str, mount: str) -> int:
    """Open a folder to remove what is in it, which its mode may forbid so far; raises OSError, also for a mount."""
    descriptor = os.open(name, SEARCH, dir_fd=parent)
    try:
        stay_in(mount, descriptor, name)
        with contextlib.suppress(OSError):
            # The descriptor is no link and cannot become one; a chmod of the name could be led elsewhere.
            Path(f"/proc/self/fd/{descriptor}").chmod(0o700)
        # By the name it could be another folder by now, or what is mounted there since.
        return os.open(".", READ, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _own_folder(parent: int, name: str, mode: int) -> int:
    """Open a folder, made in place of whatever else has its name."""
    try:
        return os.open(name, READ, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in NO_FOLDER:
            raise
        os.unlink(name, dir_fd=parent)
    make_folder(parent, name, mode)
    return os.open(name, READ, dir_fd=parent)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]

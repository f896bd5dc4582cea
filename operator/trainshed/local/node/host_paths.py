"""The hostPaths of pods: what is at them, whose it is, and what stands for those of another user."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath

from trainshed.api.job import Document
from trainshed.local.paths import resolve
from trainshed.local.state_folder import HOST_PATHS

#: The types of hostPath that are created on demand.
CREATED = (DIRECTORY, FILE) = ("DirectoryOrCreate", "FileOrCreate")
#: How the types of hostPath are known, and what they are called.
TYPES: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    DIRECTORY: (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    FILE: (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
#: The bits of a folder in which other users can put something.
PUBLIC = stat.S_ISVTX | stat.S_IWOTH


def belongs_to_another(host_path: Document) -> bool:
    """Return whether a hostPath that is created on demand is another user's, in a folder of all users such as /tmp.

    That user's folder is in the way of this one's, although the job would only create one of its own.
    """
    if host_path.get("type") not in CREATED:
        return False
    path = Path(host_path["path"])
    owners: list[int] = []
    with contextlib.suppress(OSError):  # a part that does not exist, or that this user cannot see
        for folder in reversed((path, *path.parents)):
            if owners or folder.parent.stat().st_mode & PUBLIC:
                owners.append(folder.lstat().st_uid)
    return any(owner != os.geteuid() for owner in owners)


def check_owners(root: Path, below: str) -> None:
    """Raise PermissionError if a part of a path below a hostPath is another user's, in a folder of all users.

    What root owns is not meant: root can change everything. Links in the path count, and where they lead.
    """
    paths = [PurePath(below)]
    with contextlib.suppress(OSError):  # what is missing will be created, and other errors are those of the mount
        paths.append(resolve(root, below, links=True).relative_to(os.path.realpath(root)))
    if part := next(filter(None, (_foreign_part(root, path) for path in paths)), None):
        what = f"{part} belongs to another user, who has put it in a folder of all users"
        raise PermissionError(errno.EACCES, f"{what}; if you trust that user, mount it as a hostPath without a type")


def _foreign_part(root: Path, below: PurePath) -> Path | None:
    path, public = root, False
    with contextlib.suppress(OSError):
        for name in below.parts:
            public = public or bool(path.stat().st_mode & PUBLIC)
            path /= name
            if public and path.lstat().st_uid not in (0, os.geteuid()):
                return path
    return None


def wrong_type(path: Path, kind: str) -> str:
    """Return why what is at a path is not of this type of hostPaths, in words of the kubelet; empty if it is."""
    if kind not in TYPES:
        return ""
    is_it, what = TYPES[kind]
    try:
        return "" if is_it(path.stat().st_mode) else f"hostPath type check failed: {path} is not a {what}"
    except OSError:
        return ""


def stand_in(host_path: Document, state: Path) -> Path:
    """Return the folder or file of this user that stands for a hostPath of another user."""
    return state / stand_in_path(host_path)


def stand_in_path(host_path: Document) -> str:
    """Return where it is in the folder with all that stays."""
    return f"{HOST_PATHS}/{str(host_path['path']).strip('/')}"


def made_folders(pods: Iterable[Document]) -> frozenset[Path]:
    """Return the hostPaths that are created on demand, in which containers may make others."""
    paths = (volume.get("hostPath") or {} for pod in pods for volume in pod["spec"].get("volumes") or ())
    return frozenset(Path(path["path"]) for path in paths if path.get("type") in CREATED)


def cannot_create(host_path: Document) -> bool:
    """Return whether a hostPath would have to be created where this user must not create anything."""
    if host_path.get("type") not in CREATED or belongs_to_another(host_path):
        return False
    path = Path(host_path["path"])
    if os.path.lexists(path):
        return False
    nearest = next(folder for folder in path.parents if os.access(folder, os.F_OK))
    return not os.access(nearest, os.W_OK | os.X_OK)

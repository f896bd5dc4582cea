"""The folder that has all runs and claims of a user: private, marked as this program's, and no other's.

The mark has the folder's place. In a copy it does not fit, and the copy gets a mark of its own.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .place import Place

#: The name of the folder, below the one that the user chooses, and of the file in it that says whose it is.
NAME, MARK = "trainshed-runs", "trainshed.mark"
#: What a mark begins with, and what is between its text and the place.
TEXT, AT = "trainshed run ", "\nat "
#: The folders in it that stay: of claims, and of stand-ins of host paths.
CLAIMS, HOST_PATHS = "claims", "host-paths"
#: The permission bits that others have, and those with which they can write.
OTHERS, WRITABLE = 0o077, 0o022
#: The bytes of a mark that are read.
LONGEST = 4096


class Unusable(Exception):
    """A folder is not this program's, not only this user's, or cannot be made. The message says what to do."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder, and `known`, a text that no other folder has; `notes` are what the user should know about it."""

    path: Path
    known: str
    notes: tuple[str, ...] = ()


def default_place() -> Path:
    """Return where the folder is unless the user chooses another place; raises `Unusable` without a home."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "")
    if base.is_absolute():  # the specification wants others ignored
        return base
    with suppress(RuntimeError):
        if (home := Path.home()).is_absolute() and os.environ.get("HOME") != "":
            return home / ".local/state"
    raise Unusable("you have no home on this machine; choose a folder with --state")


def open_state(place: Path) -> StateFolder:
    """Return the folder below `place`, made if it does not exist.

    Raises `Unusable` if others could replace it, if it has what this program has not made, or if it cannot be made.
    """
    try:
        return _opened_state(place)
    except OSError as error:
        lost = error.errno == errno.EEXIST
        why = "is a symbolic link that leads nowhere" if lost else f"cannot be used: {error.strerror}"
        raise Unusable(f"{error.filename or place} {why}; choose another folder with --state") from error


def make_place(place: Path) -> Path:
    """Make a folder and those above it as far as they do not exist, for this user alone; return it."""
    for missing in reversed([folder for folder in (place, *place.parents) if not folder.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return place


def _opened_state(place: Path) -> StateFolder:
    place = make_place(place).resolve()
    notes = [*parents(place)]
    path = place / NAME
    with suppress(FileNotFoundError):
        _check_content(path)  # before its mode is changed: it may be another program's
    if make_private(path):
        notes.append(f"other users could read {path}; now only you can")
    known = _own_mark(path)
    for name in (CLAIMS, HOST_PATHS):
        make_private(path / name)
    return StateFolder(path, known, tuple(notes))


def make_private(path: Path) -> bool:
    """Make a folder that only this user can enter; return whether it was there and others could enter it.

    Raises OSError, and `Unusable` if it is not this user's, or if others could write in it.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    with _opened(path) as descriptor:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise Unusable(f"{path} belongs to another user; choose another folder with --state")
        if found.st_mode & WRITABLE:
            raise Unusable(
                f"other users can write in {path}: make sure that all of it is yours and run `chmod 700`, or choose"
                " another folder with --state"
            )
        os.fchmod(descriptor, 0o700)
        if os.fstat(descriptor).st_mode & OTHERS:
            raise Unusable(f"{path} cannot be made private on this file system; choose another folder with --state")
        return bool(found.st_mode & OTHERS)


def write_mark(path: Path, text: str) -> None:
    """Write a file in one go: it never exists with another content. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    Path(temporary).rename(path)


def read_mark(path: Path) -> str | None:
    """Return the content of a file that only this user can have made, None if it is missing or anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, LONGEST).decode(errors="replace") if is_own_file(descriptor) else None
    finally:
        os.close(descriptor)


def is_own_file(descriptor: int) -> bool:
    """Return whether an open file is a regular one of this user."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Open a folder; raises `Unusable` if it is a symbolic link or a file."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise Unusable(f"{folder} is not a folder of `trainshed run`; choose another folder with --state") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_content(path: Path) -> None:
    """Raise `Unusable` if another program has filled a folder.

    A program that dies before there is a mark leaves an empty folder, or a temporary file whose name begins with that
    of the mark.
    """
    with _opened(path) as descriptor, os.scandir(descriptor) as entries:
        names = [entry.name for entry in entries]
    if MARK in names:
        _read_known(path)
        return
    if foreign := sorted(name for name in names if not name.startswith(f"{MARK}.")):
        raise Unusable(
            f"{path} has files that are not of `trainshed run`, such as {foreign[0]}; choose another folder with"
            " --state"
        )


def _own_mark(path: Path) -> str:
    """Return what a folder is known by; one without a mark, and a copy of another one, get a new one.

    Raises `Unusable`.
    """
    here = Place.of(path.lstat())
    known, place = _read_known(path) if os.path.lexists(path / MARK) else ("", None)
    if place != here:
        if place is None or not place.may_be_before_start(here):
            known = secrets.token_hex(8)
        write_mark(path / MARK, f"{TEXT}{known}{AT}{here}\n")
        known, _ = _read_known(path)  # another run may have written one at the same time
    return known


def _read_known(path: Path) -> tuple[str, Place | None]:
    """Return what the mark of a folder says, and of which place; raises `Unusable` if it is another program's."""
    text = read_mark(path / MARK)
    if text is None or not text.startswith(TEXT):
        raise Unusable(f"{path / MARK} is not a file of `trainshed run`; choose another folder with --state")
    known, _, place = text.removeprefix(TEXT).rstrip("\n").partition(AT)
    return known, Place.read(place)


def parents(place: Path) -> Iterator[str]:
    """Yield what the user should know about the folders above; raises `Unusable` if all users can replace the next.

    Folders with the sticky bit, such as /tmp, let no user rename what is another's. A foreign group may be the user's
    own, as on Debian, and a foreign owner may be trusted, as where root works in the folder of a user.
    """
    for folder in (place, *place.parents):
        found = folder.stat()
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise Unusable(
                f"every user can write in {folder}, and so replace what a run keeps below it; choose another folder"
                " with --state"
            )
        if found.st_uid not in (0, os.geteuid()):
            yield f"{folder} belongs to another user, who can replace what a run keeps below it"

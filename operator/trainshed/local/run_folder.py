"""The folder of a run: its logs, the volumes of its pods, and what earlier runs left that were killed.

Folders are only removed if they have the mark of a run: a file that is locked while the run exists, with the name of
the folder in it. It is the first file of the folder, and never there without its content. So a folder that a user
has put there, copied or renamed is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import stat
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainshed.local.launcher.process_tree import kill_if
from trainshed.local.runtimes.replaced_paths import remove_links

from .paths import remove
from .state_folder import StateFolder, is_own_file, make_private, open_state, read_mark

#: The variable that each process of a run has, with the name of the run's folder.
MARK = "TRAINSHED_RUN"
#: The mark in the folder of a run, and its name before it is locked and complete.
LOCK, NEW = "trainshed.lock", "trainshed.lock.new"
#: The names of runs: when they began, their first job, and their process.
RUN = re.compile(r"\d{8}-\d{6}-.+-\d+")
#: The number of finished runs whose logs are kept.
KEPT = 20
#: Seconds after which a folder without a mark is not one that a run is just making.
BEGIN = 60.0


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Implements `runtimes.protocol.Run`: a folder that belongs to one run as long as `lock` is open."""

    path: Path
    lock: int
    state: StateFolder

    @property
    def name(self) -> str:
        """The name, which differs from that of every other run."""
        return self.path.name

    @property
    def root(self) -> Path:
        """The folder that has all runs and claims."""
        return self.state.path

    @property
    def known(self) -> str:
        """A text that no other such folder has."""
        return self.state.known

    @property
    def logs(self) -> Path:
        """The folder with the output of each replica."""
        return self.path / "logs"

    @property
    def pods(self) -> Path:
        """The folder with the volumes that end with the run."""
        return self.path / "pods"

    @property
    def links(self) -> Path:
        """The link to a folder of links, if the run has one."""
        return self.pods / "links"

    def is_over(self, name: str) -> bool:
        """Return whether this is the name of a run that has ended, or whose folder was removed."""
        folder = self.root / name
        return RUN.fullmatch(name) is not None and (is_over(folder) or not os.path.lexists(folder))

    def close(self) -> None:
        """Remove everything except for the logs."""
        remove(self.pods)
        os.close(self.lock)


def new_run(place: Path, job: str, now: datetime) -> RunFolder:
    """Make the folder of a new run, after removing what killed runs have left; raises OSError and `Unusable`."""
    state = open_state(place)
    clean_up(state.path)
    folder = state.path / f"{now:%Y%m%d-%H%M%S}-{job}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    lock = os.open(folder / NEW, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, mark(folder.name).encode())
    os.fsync(lock)
    (folder / NEW).rename(folder / LOCK)  # no other run finds a file that is not yet locked
    make_private(folder / "logs")
    make_private(folder / "pods")
    return RunFolder(folder, lock, state)


def mark(run: str) -> str:
    """Return the content of the mark of a run on this machine."""
    return f"trainshed run {run}\non {socket.gethostname()}\n"


def clean_up(root: Path) -> None:
    """Remove what runs that no longer exist have left: processes, volumes, and the oldest logs."""
    finished = []
    for folder in sorted(root.iterdir()):
        if is_over(folder):
            finished.append(folder)
            if (folder / "pods").exists():
                kill_marked(folder.name)
                remove_links(folder / "pods" / "links")
                remove(folder / "pods")
        elif is_unfinished(folder):
            with contextlib.suppress(OSError):  # it has something that no run has made
                (folder / NEW).unlink(missing_ok=True)
                folder.rmdir()
    for folder in finished[: max(0, len(finished) - KEPT)]:
        remove(folder)


def is_over(folder: Path) -> bool:
    """Return whether this is the folder of a run that has ended.

    Other machines may have the folder too, as with a home on NFS. Whether their runs exist is not known here, only
    that they have removed their volumes at the end.
    """
    if not is_own(folder):
        return False
    text = read_mark(folder / LOCK)
    if text != mark(folder.name):
        first = mark(folder.name).partition("\n")[0]
        return text is not None and text.startswith(f"{first}\n") and not (folder / "pods").exists()
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return is_own_file(lock)
    except OSError:
        return False
    finally:
        os.close(lock)


def is_unfinished(folder: Path) -> bool:
    """Return whether a run was killed before it had marked its folder, which has nothing else in it then."""
    if not is_own(folder) or os.path.lexists(folder / LOCK):
        return False
    return time.time() - folder.lstat().st_mtime > BEGIN


def is_own(folder: Path) -> bool:
    """Return whether this is a folder of this user with the name of a run, and no link to one."""
    if not RUN.fullmatch(folder.name):
        return False
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def kill_marked(run: str) -> None:
    """Kill this user's processes of a run that no longer exists, where /proc shows their environments."""
    wanted = f"{MARK}={run}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        kill_if(int(process.name), lambda pid: _has_mark(Path(f"/proc/{pid}"), wanted))


def _has_mark(process: Path, wanted: bytes) -> bool:
    with contextlib.suppress(OSError):
        return process.stat().st_uid == os.geteuid() and wanted in (process / "environ").read_bytes().split(b"\0")
    return False

"""The folder of a run: its logs, the volumes of its pods, and what earlier runs left that were killed.

Folders are only removed if they have the mark of a run: a file that is locked while the run exists, with the name of
the folder and its own place in it. It is the first file of the folder, and never there without its content. So a
folder that a user has put there or renamed is left alone, and a copy is known as one, though its mark names a run that
may go on: the lock of a run that exists is open, and no other file has its place then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shlex
import socket
import stat
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

from trainshed.local.launcher.process_tree import ROUND, ROUNDS, kill_found, variables
from trainshed.local.runtimes.replaced_paths import remove_links

from .mounts import mounts_below
from .paths import remove
from .place import Place, is_local
from .state_folder import LONGEST, StateFolder, Unusable, is_own_file, make_private, open_state

#: The variable that each process of a run has, with the id of the run.
MARK = "TRAINSHED_RUN"
#: The mark in the folder of a run, and its name before it is locked and complete.
LOCK, NEW = "trainshed.lock", "trainshed.lock.new"
#: The names of runs: when they began, their first job, and their process.
RUN = re.compile(r"\d{8}-\d{6}-.+-\d+")
#: The content of a mark: the name of the folder, the name of the machine, a token, and the place of the mark.
TEXT = re.compile(r"trainshed run (.+)\non (.*)\nas ([0-9a-f]+) at (.*)\n")
#: The number of finished runs whose logs are kept.
KEPT = 20
#: Seconds after which a folder without a mark is not one that a run is just making.
BEGIN = 60.0


class Fate(Enum):
    """What has become of a run: its volumes were removed, or it has ended and they were not.

    Else it is not known: it exists, is another machine's, or the folder is no run's. `FOREIGN` are the volumes in a
    copy of a folder, or of a run that may be another machine's.
    """

    UNKNOWN = auto()
    FOREIGN = auto()
    REMOVED = auto()
    KILLED = auto()


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What the folder of a run shows: `token` is the run's, empty unless the folder is surely the one of that run.

    `since_start` is whether this machine has not been started again since the run began.
    """

    fate: Fate
    token: str = ""
    since_start: bool = False

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.fate in (Fate.REMOVED, Fate.KILLED)


@dataclass(frozen=True, slots=True)
class LeftVolumes:
    """The volumes of earlier runs: of runs that are not known here, and those that could not be removed."""

    foreign: tuple[Path, ...] = ()
    stuck: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Implements `runtimes.protocol.Run`: a folder that belongs to one run as long as `lock` is open."""

    path: Path
    lock: int
    token: str
    state: StateFolder
    left: LeftVolumes = LeftVolumes()

    @property
    def id(self) -> str:
        """The name with a token: no other run has it, on any machine, though its folder was copied."""
        return f"{self.path.name}-{self.token}"

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

    @property
    def stuck(self) -> tuple[Path, ...]:
        """The volumes of runs that have ended, which this user cannot remove."""
        return self.left.stuck

    def is_over(self, run: str) -> bool | None:
        """Return whether the run with this id has surely ended; None if nothing is known of it here."""
        name, _, token = run.rpartition("-")
        folder = self.root / name
        if RUN.fullmatch(name) is None:
            return False
        if not os.path.lexists(folder):
            return None
        found = earlier_run(folder)
        if not found.over or found.token != token:
            return False
        return found.since_start or None

    def notes(self) -> list[str]:
        """Return what the user should know about the folder, and about what earlier runs have left."""
        notes = [*self.state.notes]
        if self.left.foreign:
            first, count = self.left.foreign[0], len(self.left.foreign)
            notes.append(
                f"volumes of runs that are copies, or may be another machine's, are left as they are: {count} below"
                f" {self.root}; if no run needs it: {_mounted(first) or f'rm -rf {shlex.quote(str(first))}'}"
            )
        return notes + [_stuck(folder) for folder in self.left.stuck if folder.exists()]

    def keep(self, name: str, content: bytes) -> None:
        """Write a file that stays with the logs; raises OSError."""
        file = os.open(self.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)

    def close(self) -> str:
        """Remove all but the logs and what is kept; return what the user should know about what is left."""
        remove(self.pods)
        os.close(self.lock)
        return _stuck(self.pods) if self.pods.exists() else ""


def _stuck(folder: Path) -> str:
    if mounted := _mounted(folder):
        return f"what a job has mounted is left as it is: {mounted}; the next run removes the volume then"
    return f"what containers have written cannot be removed by you: sudo rm -rf {shlex.quote(str(folder))}"


def _mounted(folder: Path) -> str:
    """Return how to unmount what is mounted in a folder, whose removal would remove that too; empty if nothing is."""
    last = [shlex.quote(ascii(str(path))[1:-1]) for path in reversed(mounts_below(folder))]
    return f"umount {last[0]}{f' (and {len(last) - 1} more)' if last[1:] else ''}" if last else ""


def new_run(place: Path, job: str, now: datetime) -> RunFolder:
    """Make the folder of a new run, after removing what killed runs have left; raises OSError and `Unusable`."""
    state = open_state(place)
    left = clean_up(state.path)
    folder = state.path / f"{now:%Y%m%d-%H%M%S}-{job}-{os.getpid()}"
    token = secrets.token_hex(8)
    try:
        lock = _make(folder, token)
    except OSError as error:
        what = f"{error.filename or folder} cannot be made: {error.strerror}"
        raise Unusable(f"{what}; choose another folder with --state") from error
    return RunFolder(folder, lock, token, state, left)


def _make(folder: Path, token: str) -> int:
    """Make the folder of a run, and what is in it; return the descriptor that locks its mark."""
    folder.mkdir(mode=0o700)
    lock = os.open(folder / NEW, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, mark(folder.name, token, Place.of(os.fstat(lock))).encode())
    os.fsync(lock)
    (folder / NEW).rename(folder / LOCK)  # no other run finds a file that is not yet locked
    make_private(folder / "logs")
    make_private(folder / "pods")
    return lock


def mark(run: str, token: str, place: Place) -> str:
    """Return the content of the mark of a run, whose file has this place."""
    return f"trainshed run {run}\non {socket.gethostname()}\nas {token} at {place}\n"


def clean_up(root: Path) -> LeftVolumes:
    """Remove what runs that no longer exist have left: processes, volumes, and the oldest logs; return what is left."""
    finished, foreign = [], []
    for folder in sorted(root.iterdir()):
        found = earlier_run(folder)
        if found.fate is Fate.FOREIGN:
            foreign.append(folder / "pods")
        elif found.over:
            finished.append(folder)
            if found.fate is Fate.KILLED:
                if found.since_start:
                    kill_marked(f"{folder.name}-{found.token}")
                remove_links(folder / "pods" / "links")
                remove(folder / "pods")
        elif is_unfinished(folder):
            with contextlib.suppress(OSError):  # it has something that no run has made
                (folder / NEW).unlink(missing_ok=True)
                folder.rmdir()
    stuck = [folder / "pods" for folder in finished if (folder / "pods").exists()]
    emptied = [folder for folder in finished if folder / "pods" not in stuck]
    for folder in emptied[: max(0, len(emptied) - KEPT)]:
        remove(folder)
    return LeftVolumes(tuple(foreign), tuple(stuck))


def earlier_run(folder: Path) -> EarlierRun:
    """Return what has become of the run with this folder.

    Other machines may have the folder too, as with a home on NFS. Whether their runs exist is not known here, only
    that they have removed their volumes at the end.
    """
    if not is_own(folder):
        return EarlierRun(Fate.UNKNOWN)
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return EarlierRun(Fate.UNKNOWN)
    try:
        return _locked_run(folder, lock)
    except OSError:
        return EarlierRun(Fate.UNKNOWN)
    finally:
        os.close(lock)


def _locked_run(folder: Path, lock: int) -> EarlierRun:
    """Do what `earlier_run` does; raises OSError if the run exists, which has locked its mark."""
    lines = os.read(lock, LONGEST).decode(errors="replace")
    if not is_own_file(lock) or not lines.startswith(f"trainshed run {folder.name}\n"):
        return EarlierRun(Fate.UNKNOWN)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fate = Fate.KILLED if os.path.lexists(folder / "pods") else Fate.REMOVED
    if text := TEXT.fullmatch(lines):
        here, place = Place.of(os.fstat(lock)), Place.read(text[4])
        if place == here:
            return EarlierRun(fate, text[3], since_start=True)
        # A machine with the same disk, such as a server of NFS, has another name.
        if place and place.may_be_before_start(here) and text[2] == socket.gethostname() and is_local(lock):
            return EarlierRun(fate, text[3])
    return EarlierRun(Fate.FOREIGN if fate is Fate.KILLED else fate)


def is_over(folder: Path) -> bool:
    """Return whether this is the folder of a run that has ended."""
    return earlier_run(folder).over


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
    """Kill this user's processes of the run with this id, where /proc shows their environments; parents first.

    They may start others meanwhile, so that it looks again until it finds none, some times.
    """
    mark = f"{MARK}={run}".encode()

    def wanted(pid: int) -> int | None:
        try:
            if Path(f"/proc/{pid}").stat().st_uid != os.geteuid():
                return 0
        except FileNotFoundError as error:
            raise ProcessLookupError(error.errno, error.strerror) from error
        found = variables(pid)
        return None if found is None else mark in found

    for _ in range(ROUNDS):
        if not kill_found(wanted):
            return
        time.sleep(ROUND)

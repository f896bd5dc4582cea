"""The folder of a run: its logs, the volumes of its pods, and what earlier runs left that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

#: The variable that each process of a run has, with the name of the run's folder.
MARK = "TRAINSHED_RUN"
#: The number of finished runs whose logs are kept.
KEPT = 20
#: Seconds after which a folder without a lock is not one that a run is just making.
BEGIN = 60.0


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder that belongs to one run as long as the descriptor `lock` is open."""

    path: Path
    lock: int

    @property
    def name(self) -> str:
        """The name, which differs from that of every other run."""
        return self.path.name

    @property
    def logs(self) -> Path:
        """The folder with the output of each replica."""
        return self.path / "logs"

    @property
    def pods(self) -> Path:
        """The folder with the volumes that end with the run."""
        return self.path / "pods"

    def close(self) -> None:
        """Remove everything except for the logs."""
        shutil.rmtree(self.pods, ignore_errors=True)
        os.close(self.lock)


def state_folder() -> Path:
    """Return where runs keep logs and claims unless the user chooses another place."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "trainshed"


def new_run(state: Path, job: str, now: datetime) -> RunFolder:
    """Make the folder of a new run, after removing what killed runs have left; raises OSError."""
    runs = state / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    clean_up(runs)
    name = f"{now:%Y%m%d-%H%M%S}-{job}-{os.getpid()}"
    (runs / name / "logs").mkdir(parents=True)
    (runs / name / "pods").mkdir()
    unlocked = runs / name / "lock.new"
    lock = os.open(unlocked, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    unlocked.rename(runs / name / "lock")  # no other run finds a file that is not yet locked
    return RunFolder(runs / name, lock)


def clean_up(runs: Path) -> None:
    """Remove what runs that no longer exist have left: processes, volumes, and the oldest logs."""
    finished = []
    for folder in sorted(runs.iterdir()):
        if is_over(folder):
            finished.append(folder)
            if (folder / "pods").exists():
                kill_marked(folder.name)
                shutil.rmtree(folder / "pods", ignore_errors=True)
    for folder in finished[: max(0, len(finished) - KEPT)]:
        shutil.rmtree(folder, ignore_errors=True)


def is_over(folder: Path) -> bool:
    """Return whether the run with this folder has ended."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # it is only being made, or that run was killed meanwhile
        return time.time() - folder.stat().st_mtime > BEGIN
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def kill_marked(run: str) -> None:
    """Kill the processes of a run that no longer exists, where /proc shows their environments."""
    wanted = f"{MARK}={run}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in entry.read_bytes().split(b"\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)

"""Programs that run in the background, known by a pid file, each with its log."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .steps import TAIL, StepFailed

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Process:
    """A program; its pid and log are files in `folder`. A pid counts only with its start time: pids come again."""

    name: str
    folder: Path

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self.folder / f"{self.name}.log"

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def start(self, command: Sequence[str | Path], *, tied: bool = False, env: dict[str, str] | None = None) -> None:
        """Start it unless it runs; `tied` ends it with this very process, whatever that dies of."""
        if self.pid:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (env or {}),
                start_new_session=not tied,
                preexec_fn=die_with_parent if tied else None,  # noqa: PLW1509 - no thread here holds a lock
            )
        self._file.write_text(f"{child.pid} {_born(child.pid)}")
        child.returncode = 0  # from here on its pid file identifies it; this keeps Popen from warning about it

    @property
    def pid(self) -> int:
        """Its process id, 0 if it does not run."""
        try:
            pid, born = self._file.read_text().split()
        except (OSError, ValueError):
            return 0
        return int(pid) if _born(int(pid)) == born else 0

    def stop(self, how: signal.Signals = signal.SIGTERM, patience: float = 10) -> None:
        """End it, by force once patience is at an end; it is gone when this returns."""
        for with_what, seconds in ((how, patience), (signal.SIGKILL, 5.0)):
            pid = self.pid
            if not pid:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, with_what)
            wait_for(lambda: not self.pid, seconds)
        self._file.unlink(missing_ok=True)

    def wait(self, ready: Callable[[], bool], seconds: float, hint: str = "") -> None:
        """Return once it is ready; raises StepFailed if it ends before, or takes too long."""
        if wait_for(lambda: ready() or not self.pid, seconds) and self.pid:
            return
        what = "was not ready in time" if self.pid else "has ended"
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL:])
        raise StepFailed(f"{self.name} {what}.\nLog: {self.log}\n{tail}" + (f"\nTry: {hint}" if hint else ""))


def strays(programs: Collection[str], folder: Path) -> dict[int, str]:
    """Return the process ids and names of these programs that run on files in `folder`, whatever started them."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, *words = path.read_bytes().decode(errors="replace").split("\0")
            name = Path(program).name
            if name in programs and any(f"{folder}/" in word for word in words):
                found[int(path.parent.name)] = name
    return found


def sweep(programs: Collection[str], folder: Path) -> None:
    """Kill the processes that strays() finds, and wait until they have ended."""
    for pid in strays(programs, folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not strays(programs, folder), 10)


def wait_for(question: Callable[[], bool], seconds: float) -> bool:
    """Ask until the answer is yes; whether it came in time."""
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _born(pid: int) -> str:
    """When a process began, in clock ticks since boot; nothing if there is none, or only its exit code is left.

    One whose first thread has ended lives on as long as there are others: its ports and files are not free before.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return ""
    if fields[0] == "Z" and len(threads) <= 1:
        _reap(pid)
        return ""
    return fields[19]


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def die_with_parent() -> None:
    """To be called in a child that was just forked: it ends without a warning when the thread that made it does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

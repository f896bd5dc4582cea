"""The control groups of the node: one in every hierarchy, above all that its pods run."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from .processes import wait_for

GROUP = "bed-node1"
ROOT = Path("/sys/fs/cgroup")


def make(group: str = GROUP) -> None:
    """Make the group in every hierarchy; a new cpuset is empty, so it is given what its parent has."""
    for hierarchy in ROOT.iterdir():
        path = hierarchy / group
        if not hierarchy.is_dir() or hierarchy.is_symlink():
            continue
        path.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (path / name).exists() and not (path / name).read_text().strip():
                (path / name).write_text((hierarchy / name).read_text())


def remove(group: str = GROUP) -> None:
    """Kill what still runs in the group, which outlives containerd if that was killed, and remove it bottom up."""
    for pid in processes(group):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not processes(group), 10)
    for top in left(group):
        for path in sorted(top.glob("**/"), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):  # what cannot go is told by left()
                path.rmdir()


def processes(group: str = GROUP) -> set[int]:
    """The processes in the group, those of its pods included."""
    found: set[int] = set()
    for top in left(group):
        for path in top.glob("**/cgroup.procs"):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in path.read_text().split()}
    return found


def left(group: str = GROUP) -> list[Path]:
    """The group in each hierarchy where it is."""
    return list(ROOT.glob(f"*/{group}"))

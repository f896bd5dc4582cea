"""The memory, open files and processor time of a process, from /proc."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process held at one moment: MiB of memory, and open files."""

    at: float
    pid: int
    rss: float
    files: int


def sample(pid: int) -> Sample | None:
    """A process as it is now; None if it has ended."""
    with contextlib.suppress(OSError, StopIteration):
        return Sample(time.monotonic(), pid, rss(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())))
    return None


def rss(pid: int) -> float:
    """MiB of memory that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

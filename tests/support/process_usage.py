"""The memory, open files and processor time of a process."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

#: The kind of a process's clock that counts nanoseconds: CPUCLOCK_SCHED of the Linux kernel.
SCHEDULED_TIME = 2


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
    """Seconds of processor time that a process has used, from its clock: /proc counts in hundredths of a second.

    The number of the clock is that of clock_getcpuclockid(3), which Python does not offer.
    """
    return time.clock_gettime((~pid << 3) | SCHEDULED_TIME)

"""What a container has printed, in which of its runs, and when: bytes in files, runs and times in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .runtimes.log_file import LogFile

#: Seconds between two times that are kept, and how many are kept at least: a page shows 10,000 lines.
APART, KEPT = 0.01, 10_000
#: The most runs that are kept; a container that ends again and again has a few hundred in a day.
MOST_RUNS = 1_000


@dataclass(slots=True)
class ContainerRun:
    """One run of a container of a pod: the numbers of its first byte, and of the first one after it once it is over."""

    uid: str
    start: int
    end: int | None = None


class KeptLog:
    """The output of the containers of one name in all pods of one name, which run after each other."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self._file, self._now = LogFile(path), now
        self._runs = deque[ContainerRun](maxlen=MOST_RUNS)
        self._places, self._times = array("q"), array("d")

    @property
    def size(self) -> int:
        """The number of the byte that is written next."""
        return self._file.size

    @property
    def oldest(self) -> int:
        """The number of the first byte that is kept."""
        return self._file.oldest

    def begin(self, uid: str) -> None:
        """Note that a container of this pod runs now."""
        self.end()
        self._runs.append(ContainerRun(uid, self.size))

    def end(self) -> None:
        """Note that it has ended."""
        if self._runs and self._runs[-1].end is None:
            self._runs[-1].end = self.size

    def write(self, chunk: bytes) -> None:
        """Append what it has printed; raises OSError."""
        now = self._now().timestamp()
        if not self._times or now - self._times[-1] >= APART:
            self._places.append(self.size)
            self._times.append(now)
            if len(self._times) >= 2 * KEPT:
                del self._places[:KEPT], self._times[:KEPT]
        self._file.write(chunk)

    def read(self, start: int, most: int) -> bytes:
        """Return bytes from `start` on, not more than so many; raises OSError."""
        return self._file.read(start, most)

    def time_of(self, place: int) -> str:
        """Return when the byte of this number was printed (RFC 3339 in UTC); empty if that is not kept."""
        found = bisect_right(self._places, place) - 1
        if found < 0:
            return ""
        return datetime.fromtimestamp(self._times[found], UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def runs_of(self, uid: str) -> Sequence[ContainerRun]:
        """Return the runs in the pod with this uid, the oldest first."""
        return [run for run in self._runs if run.uid == uid]

    def run_before_last(self, uid: str) -> Sequence[ContainerRun]:
        """Return the run before the last one, in this pod or the one before, if the last one is of this pod.

        So of the pods of a replica only one has it. There is none if the container has run once.
        """
        is_last = len(self._runs) > 1 and self._runs[-1].uid == uid
        return [self._runs[-2]] if is_last else []

    def close(self) -> None:
        """Close the file."""
        self.end()
        self._file.close()

"""Many schedules, one after the other, on as many processors as wanted, to be gone on with at any time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reliability.results import keep, kept

from .drawing import draw
from .play import Report, play

#: So many schedules a process plays before it says what came of them.
CHUNK = 100
#: Of so many failing seeds it is remembered what was wrong; the others are only counted.
REMEMBERED = 200


@dataclass(slots=True)
class Progress:
    """What was found so far; `next` is the first seed that was not played, and `seconds` are those of the clock.

    `note` is what somebody has to say of it.
    """

    next: int = 0
    schedules: int = 0
    failing: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    sums: Counter[str] = field(default_factory=Counter)
    note: str = ""

    @classmethod
    def read(cls, file: Path) -> Progress:
        """As it was written; nothing yet, if there is no such file."""
        found = kept(file)
        if not found:
            return cls()
        sums = Counter({name: count for name, count in found["sums"].items() if not isinstance(count, dict)})
        for group, counts in found["sums"].items():
            if isinstance(counts, dict):
                sums.update({f"{group}/{word}": count for word, count in counts.items()})
        sums["violations"] = found["violations"]
        return cls(found["next_seed"], found["schedules"], found["failing"], found["seconds"], sums, found["note"])

    def write(self, file: Path, command: str) -> None:
        """Keep it, for whoever goes on and for whoever wants to know."""
        sums: dict[str, Any] = {}
        for name, count in sorted(self.sums.items()):
            group, _, word = name.rpartition("/")
            if group:
                sums.setdefault(group, {})[word] = count
            elif name != "violations":
                sums[name] = count
        figures = {
            "schedules": self.schedules,
            "note": self.note,
            "violations": self.sums["violations"],
            "next_seed": self.next,
            "seconds": self.seconds,
            "schedules_per_second": round(self.schedules / max(self.seconds, 0.1), 1),
        }
        keep(file, command, figures | {"failing": self.failing, "sums": sums})

    def take(self, chunk: Chunk) -> None:
        """Add what came of some more."""
        self.next, self.schedules = chunk.end, self.schedules + chunk.schedules
        self.sums.update(chunk.sums)
        self.sums["violations"] += len(chunk.failing)
        for seed, told in chunk.failing:
            if len(self.failing) < REMEMBERED:
                self.failing[str(seed)] = told


@dataclass(frozen=True, slots=True)
class Chunk:
    """What came of the schedules up to the seed `end`."""

    end: int
    schedules: int
    failing: tuple[tuple[int, str], ...]
    sums: Counter[str]


def run(seeds: range, processes: int, progress: Progress, told: Callable[[Progress], None]) -> None:
    """Play the seeds that are left, and tell of the progress after each chunk."""
    first = max(seeds.start, progress.next)
    chunks = [range(start, min(start + CHUNK, seeds.stop)) for start in range(first, seeds.stop, CHUNK)]
    began, before = time.monotonic(), progress.seconds
    for chunk in _played(chunks, processes):
        progress.take(chunk)
        progress.seconds = round(before + time.monotonic() - began, 1)
        told(progress)


def _played(chunks: list[range], processes: int) -> Iterator[Chunk]:
    if processes <= 1:
        yield from map(some, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(processes, initializer=os.nice, initargs=(0,)) as pool:
        yield from pool.imap(some, chunks)


def some(seeds: range) -> Chunk:
    """Play some seeds, and sum up."""
    sums: Counter[str] = Counter()
    failing = []
    gc.collect()
    gc.freeze()  # what is there by now stays; what a play leaves behind is little
    for seed in seeds:
        report: Report = play(draw(seed))
        sums.update(report.counts)
        if report.violations:
            failing.append((seed, str(report.violations[0])))
    return Chunk(seeds.stop, len(seeds), tuple(failing), sums)

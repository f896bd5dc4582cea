"""The results of a soak: lines for the terminal, and a result file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.process_usage import Sample
from support.results import keep, place, quantile

from .health import every, longest, slope
from .jobs import Round

FILE = place("soak")


@dataclass
class Record:
    """The results so far; `asked` is the requested number of minutes."""

    asked: float
    commit: str
    file: Path = FILE
    began: float = field(default_factory=time.monotonic)
    writes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    starts: dict[str, int] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def take(self, found: Round, left: list[str], broken: list[str], writes: int) -> None:
        """Add a round."""
        self.writes += writes
        self.counts += found.counts
        self.waits += found.waits
        self.stuck += found.stuck
        self.leaks += [f"{found.namespace}: {one}" for one in left]
        self.violations += broken

    def figures(self) -> dict[str, object]:
        """The figures."""
        waits, life = sorted(self.waits) or [0.0], longest(self.samples)
        return {
            "commit": self.commit,
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            "jobs": self.counts["jobs"],
            "writes": self.writes,
            "faults": self.faults.total(),
            "mishaps_of_jobs": self.counts.total() - self.counts["jobs"],
            "violations": len(self.violations),
            "duplicates": sum(": V1 " in one for one in self.violations),
            "leaks": len(self.leaks),
            "stuck_jobs": len(self.stuck),
            "tracebacks": len(self.complaints),
            "running_p50_s": quantile(waits, 0.5),
            "running_max_s": round(waits[-1], 1),
        } | (_growth(life) if life else {})


def _growth(life: list[Sample]) -> dict[str, object]:
    hours = [((one.at - life[0].at) / 3600, one.rss) for one in life]
    return {
        "rss_hours_observed": round(hours[-1][0], 2),
        "rss_first_mib": round(life[0].rss, 1),
        "rss_last_mib": round(life[-1].rss, 1),
        "rss_slope_mib_per_hour": round(slope(hours), 2),
        "rss_slope_second_half_mib_per_hour": round(slope(hours[len(hours) // 2 :]), 2),
        "rss_every_ten_minutes_mib": every(hours, 1 / 6),
        "files_first": life[0].files,
        "files_last": life[-1].files,
        "files_max": max(one.files for one in life),
    }


def lines(record: Record) -> Iterator[str]:
    """Everything, line by line."""
    for words in (record.violations, record.leaks, record.stuck, record.complaints[-20:]):
        yield from words
    yield from (f"{key.replace('_', ' ')}: {value}" for key, value in record.figures().items())
    yield f"faults: {dict(record.faults)}; jobs: {dict(record.counts)}; starts: {record.starts}"


def write(record: Record) -> None:
    """Write the result file."""
    counted = {"fault": record.faults, "disruption": record.counts, "replica": record.starts}
    tables = {
        f"by_{name}": [{name: key.replace("_", " "), "times": count} for key, count in sorted(table.items())]
        for name, table in counted.items()
    }
    keep(record.file, f"make soak MINUTES={record.asked:.0f}", record.figures() | tables)

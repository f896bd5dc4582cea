"""The points of a workload: each fault at each of its writes and events, which a run without faults has counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from .trial import Baseline, Point
from .watch_faults import STALE, WATCH_FAULTS
from .write_faults import ANSWERS, CRASHES, WRITE_FAULTS

CRASH, ANSWER, WATCH = "crash", "answer", "watch"
FAMILIES = {
    **dict.fromkeys(CRASHES, CRASH),
    **dict.fromkeys(ANSWERS, ANSWER),
    **dict.fromkeys((*WATCH_FAULTS, STALE), WATCH),
}
#: A trial with many points injects a fault at every third, second or fifth event. After a 403 the back-off grows, and a
#: silent watch is only detected after a while.
STRIDES = dict.fromkeys(CRASHES, 3) | dict.fromkeys(ANSWERS, 2) | dict.fromkeys(WATCH_FAULTS, 3)
STRIDES |= {"403": 5, "half-open": 12}
#: Every Nth stale list is tried, each in a trial of its own.
STALE_STRIDE = 6


def single(workload: str, baseline: Baseline) -> Iterator[Point]:
    """All points, each in a trial of its own."""
    for fault in WRITE_FAULTS:
        yield from (Point(workload, fault, number) for number in range(1, len(baseline.writes) + 1))
    for plural, events in sorted(baseline.events.items()):
        for fault in (*WATCH_FAULTS, STALE):
            yield from (Point(workload, fault, number, plural) for number in range(1, events + 1))


def combined(workload: str, baseline: Baseline) -> Iterator[Point]:
    """All points, many in a trial; and some stale lists."""
    for fault, stride in STRIDES.items():
        yield from (Point(workload, fault, number, stride=stride) for number in range(stride))
    for plural, events in sorted(baseline.events.items()):
        yield from (Point(workload, STALE, number, plural) for number in range(2, events + 1, STALE_STRIDE))


def sample(workload: str, baseline: Baseline, turn: int) -> Iterator[Point]:
    """One point for each fault; from turn to turn they go round the writes, and the events of all watches."""
    steps = count(3 * turn)
    for fault in WRITE_FAULTS:
        yield Point(workload, fault, 1 + next(steps) * 5 % len(baseline.writes))
    events = [(plural, number) for plural, found in sorted(baseline.events.items()) for number in range(1, found + 1)]
    for fault in (*WATCH_FAULTS, STALE):
        plural, number = events[next(steps) * 7 % len(events)]
        yield Point(workload, fault, number, plural)

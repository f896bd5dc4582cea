"""Which points there are: each workload's writes and events, learned from a run without faults, times each fault."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from .faults import ANSWERS, CRASHES
from .streams import STALE, TRICKS
from .trial import Lesson, Point

CRASH, ANSWER, WATCH = "crash", "answer", "watch"
FAMILIES = {
    **dict.fromkeys(CRASHES, CRASH),
    **dict.fromkeys(ANSWERS, ANSWER),
    **dict.fromkeys((*TRICKS, STALE), WATCH),
}
#: At every so many writes, or events, a fault strikes in one trial when many points are to be seen to. After a 403 the
#: operator waits longer each time, for it is lifted by people; and silence is not found out at once.
STRIDES = dict.fromkeys(CRASHES, 3) | dict.fromkeys(ANSWERS, 2) | dict.fromkeys(TRICKS, 3) | {"403": 5, "half-open": 12}
#: And of the lists from the past every so manieth is tried, by itself.
PASTS = 6


def every(lesson: Lesson) -> Iterator[Point]:
    """All points of a workload."""
    for fault in (*CRASHES, *ANSWERS):
        yield from (Point(lesson.workload, fault, number) for number in range(1, len(lesson.writes) + 1))
    for plural, events in sorted(lesson.told.items()):
        for fault in (*TRICKS, STALE):
            yield from (Point(lesson.workload, fault, number, plural) for number in range(1, events + 1))


def together(lesson: Lesson) -> Iterator[Point]:
    """All points of a workload, many in a trial; of the lists from the past a choice."""
    for fault in FAMILIES:
        if fault != STALE:
            stride = STRIDES[fault]
            yield from (Point(lesson.workload, fault, number, stride=stride) for number in range(stride))
    for plural, events in sorted(lesson.told.items()):
        yield from (Point(lesson.workload, STALE, number, plural) for number in range(2, events + 1, PASTS))


def spread(taught: Lesson, turn: int) -> Iterator[Point]:
    """One point for each fault; from turn to turn they go round the writes, and the events of all watches."""
    steps = count(3 * turn)
    for fault in (*CRASHES, *ANSWERS):
        yield Point(taught.workload, fault, 1 + next(steps) * 5 % len(taught.writes))
    events = [(plural, number) for plural, told in sorted(taught.told.items()) for number in range(1, told + 1)]
    for fault in (*TRICKS, STALE):
        plural, number = events[next(steps) * 7 % len(events)]
        yield Point(taught.workload, fault, number, plural)

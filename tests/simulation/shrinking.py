"""Makes a schedule that fails as small as it goes: fewer steps, one operator, simpler pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .schedule import Schedule, Step

#: Whether a schedule still fails in the same way.
Fails = Callable[[Schedule], bool]


def shrunk(schedule: Schedule, fails: Fails, tries: int = 2000) -> Schedule:
    """The smallest schedule found that still fails; `fails` is asked at most so often."""
    found, left = schedule, tries
    while left > 0:
        for candidate in _smaller(found):
            left -= 1
            if fails(candidate):
                found = candidate
                break
            if left <= 0:
                break
        else:
            break
    return found


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    steps = schedule.steps
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield replace(schedule, steps=(*steps[:start], *steps[start + size :]))
        size //= 2
    if schedule.operators > 1:
        yield replace(schedule, operators=1)
    if schedule.finish:
        yield replace(schedule, finish=False)
    if schedule.gang:
        yield replace(schedule, gang="")
    for place, step in enumerate(steps):
        for simpler in _simpler(step):
            yield replace(schedule, steps=(*steps[:place], simpler, *steps[place + 1 :]))


def _simpler(step: Step) -> Iterator[Step]:
    if step.after:
        yield replace(step, after=0.0)
    for whole in (1.0, 5.0, 30.0):
        if step.after > whole or step.after not in (0.0, 1.0, 5.0, 30.0):
            yield replace(step, after=whole)
    if step.which:
        yield replace(step, which=0)

"""Every kind of fault in every workload, each at another of its points; `make chaos` goes through all of them."""

from __future__ import annotations

import asyncio

import pytest

from .campaign import learn, run
from .fixtures import clock, scenery
from .play import Stage
from .points import spread
from .trial import Outcome
from .workloads import WORKLOADS

__all__ = ["clock", "scenery"]
pytestmark = pytest.mark.apiserver

LANES = 4


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_fault_loses_anything_or_does_anything_twice(clock: asyncio.Runner, scenery: Stage, name: str):
    outcomes = clock.run(outcomes_of(scenery, name))
    assert {one.point: one.violations for one in outcomes if one.violations} == {}
    struck = sum(1 for one in outcomes if one.struck)
    assert struck >= 0.7 * len(outcomes), "hardly any of the faults came to pass"


async def outcomes_of(scenery: Stage, name: str) -> list[Outcome]:
    """What came of one point for each fault."""
    lesson = await learn(scenery, WORKLOADS[name])
    points = spread(lesson, [*WORKLOADS].index(name))
    return [one async for one in run(scenery, {name: lesson}, points, LANES)]

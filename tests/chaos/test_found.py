"""What the campaign has found, each at the point where it was found."""

from __future__ import annotations

import asyncio

import pytest

from .campaign import learn
from .fixtures import clock, scenery
from .play import Stage
from .trial import Point, Trial
from .workloads import WORKLOADS

__all__ = ["clock", "scenery"]
pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize(
    ("workload", "fault", "write"),
    [
        # The pod was taken for gone, and made anew beside those of the attempt before.
        pytest.param("preempted", "409", "DELETE pods pre-worker-1", id="a pod that could not be deleted is there"),
        # The Service was taken for gone, and stayed for ever.
        pytest.param(
            "pytorch", "409", "DELETE services pytorch-worker-0", id="a Service that could not be deleted too"
        ),
    ],
)
def test_it_is_mended(clock: asyncio.Runner, scenery: Stage, workload: str, fault: str, write: str):
    async def outcome():
        lesson = await learn(scenery, WORKLOADS[workload])
        point = Point(workload, fault, lesson.writes.index(write) + 1)
        return await Trial(scenery, WORKLOADS[workload], point, lesson).run()

    found = clock.run(outcome())
    assert found.struck
    assert found.violations == ()

"""Bugs that the campaign has found, each at its injection point."""

from __future__ import annotations

import pytest

from .campaign import measured
from .run import Environment
from .trial import Point, Trial
from .workloads import WORKLOADS

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize(
    ("workload", "fault", "write"),
    [
        # The operator took the pod for deleted, and created it beside those of the attempt before.
        pytest.param("preempted", "409", "DELETE pods pre-worker-1", id="a pod that could not be deleted is there"),
        # The operator took the Service for deleted, and never deleted it.
        pytest.param("pytorch", "409", "DELETE services pytorch-worker-0", id="so is a Service"),
    ],
)
async def test_bugs_that_were_found_stay_fixed(environment: Environment, workload: str, fault: str, write: str):
    baseline = await measured(environment, WORKLOADS[workload])
    point = Point(workload, fault, baseline.writes.index(write) + 1)
    found = await Trial(environment, WORKLOADS[workload], point, baseline).run()
    assert found.struck
    assert found.violations == ()

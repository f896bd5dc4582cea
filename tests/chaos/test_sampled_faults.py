"""A sample of `make chaos`: every fault in five workloads, each at a different point."""

from __future__ import annotations

import pytest

from .campaign import measured, outcomes
from .points import sample
from .run import Environment
from .workloads import WORKLOADS

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]

PARALLEL = 4
#: An MPIJob owns an object of each kind; a restart as a whole and of one replica; pods that go and come back as a user
#: wishes; messages to a webhook. The simulation injects the same faults in what the other workloads do, and `make
#: chaos` in all of them.
SAMPLED = ("mpi", "all-again", "one-again", "pauses", "tells")


@pytest.mark.fault("A1", "A2", "A4", "A6", "A7", "A10", "A11", "A12", "A13", "B1", "B7", "B8", "C2", "C4")
@pytest.mark.parametrize("name", SAMPLED)
async def test_no_fault_loses_or_repeats_an_action(environment: Environment, name: str):
    baseline = await measured(environment, WORKLOADS[name])
    points = sample(name, baseline, SAMPLED.index(name))
    found = [one async for one in outcomes(environment, {name: baseline}, points, PARALLEL)]
    assert {one.point: one.violations for one in found if one.violations} == {}
    struck = sum(1 for one in found if one.struck)
    assert struck >= 0.7 * len(found), "hardly any of the faults were injected"

"""A node on which replicas failed is read once; if it cannot be read, the job goes on without."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from support.builders import T0
from support.harness import Harness, a_spec
from support.virtual_time import clock, in_virtual_time
from trainshed.api.framework import JobDefaults
from trainshed.client import Forbidden
from trainshed.controller.node_reports import NodeReports

NODE = "/api/v1/nodes/node-0"
GONE = {"type": "GpuXidError", "status": "True", "message": "GPU fell off the bus"}


async def failing(*, node_health: bool = True) -> Harness:
    """Return a job of which two replicas fail on a node whose GPU has a problem."""
    harness = Harness(a_spec(Worker=2, restart="Never"), JobDefaults(node_health=node_health))
    world = harness.world
    await harness.reconcile(2)
    for name in sorted(world.pods):
        world.set_pod(name, "Running")
    harness.hear()
    await harness.reconcile(seconds=9)
    there = world.server.object(NODE)
    body = {"metadata": {"name": "node-0"}, "spec": {}}
    body = there or world.server.request("user", "POST", "/api/v1/nodes", body=body)
    since = {"lastTransitionTime": world.now.isoformat()}
    status = {"conditions": [GONE | since]}
    world.server.request("user", "PUT", f"{NODE}/status", body={**body, "status": status})
    for name in sorted(world.pods):
        world.set_pod(name, "Failed", code=1)
    harness.hear()
    return harness


def reads(harness: Harness) -> list[str]:
    """Return the reads of the node and of its Events."""
    return [path for path in harness.world.reads if "/nodes" in path or "/default/events" in path]


async def test_the_node_is_read_once_and_what_it_says_is_stored():
    harness = await failing()
    await harness.reconcile(3)
    failure = harness.snapshot().status.failure
    assert failure.kind == "Infrastructure"
    assert failure.message.endswith(" (node-0 failed meanwhile: GpuXidError: GPU fell off the bus)")
    assert reads(harness) == [NODE, "/api/v1/namespaces/default/events"]


async def test_without_the_flag_no_node_is_read():
    harness = await failing(node_health=False)
    await harness.reconcile(3)
    assert harness.snapshot().status.failure.kind == "Application"
    assert reads(harness) == []


async def test_without_the_right_to_read_nodes_the_failure_is_handled_all_the_same(caplog):
    harness = await failing()
    harness.world.fail("read_node", Forbidden("may not get nodes"), times=1000)
    await harness.reconcile(3)
    assert harness.snapshot().status.over
    reports = NodeReports(harness.world)
    await reports.of(["a", "b"], T0)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "cannot read the health of node node-0: may not get nodes",
        "cannot read the health of node a: may not get nodes",
    ]


class SlowNodes:
    """Answers reads of nodes after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.count = seconds, 0

    async def read_node(self, _name: str) -> tuple[dict, list]:
        self.count += 1
        await asyncio.sleep(self.seconds)
        return {"spec": {"unschedulable": True}}, []


@pytest.mark.parametrize(("seconds", "problems"), [(2, 1), (60, 0)])
def test_jobs_share_what_was_read_and_wait_for_it_for_five_seconds_at_most(seconds, problems):
    async def story() -> tuple[float, SlowNodes]:
        nodes, began = SlowNodes(seconds), clock()
        reports = NodeReports(nodes)
        answers = await asyncio.gather(*(reports.of(["a"], T0) for _ in range(50)))
        assert {len(answer["a"].problems) for answer in answers} == {problems}
        took = clock() - began
        await reports.of(["b"], T0 + timedelta(seconds=5))
        assert list(reports._readings) == ["b"]
        return took, nodes

    took, nodes = in_virtual_time(story())
    assert (took <= 5, nodes.count) == (True, 2)

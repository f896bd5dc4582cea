"""The Events about a PodGroup are read only when they are needed, and an error while reading is harmless."""

from __future__ import annotations

import logging

from support.harness import Harness, a_spec
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import VOLCANO_GROUPS
from trainshed.client import Forbidden

OVERUSED = "resource in cluster is overused: overused cpu"


def queued() -> Harness:
    """An harness with a job that Volcano does not admit."""
    return Harness(a_spec(Worker=2), JobDefaults(gang_scheduler="volcano"))


def report(harness: Harness) -> None:
    """Write the Event of Volcano about the PodGroup."""
    group = harness.world.get(VOLCANO_GROUPS)["metadata"]
    about = {"kind": "PodGroup", "name": "mnist", "uid": group["uid"]}
    event = {"metadata": {"name": "mnist.1"}, "involvedObject": about, "reason": "Unschedulable", "message": OVERUSED}
    harness.world.create("events", event)


def blocked(harness: Harness) -> str:
    return next(one.message for one in harness.snapshot().status.conditions if one.type == "Blocked")


async def test_the_reason_is_in_the_status_after_one_read():
    harness = queued()
    await harness.reconcile(2)
    report(harness)
    await harness.reconcile(6, seconds=5)
    assert harness.world.event_reads == 0
    await harness.reconcile(2, seconds=5)
    assert blocked(harness).endswith(f"it has no phase yet ({OVERUSED})")
    await harness.reconcile(4, seconds=5)
    assert harness.world.event_reads == 1


async def test_a_wait_of_an_hour_costs_few_reads():
    harness = queued()
    await harness.reconcile(720, seconds=5)
    assert harness.world.event_reads == 10


async def test_without_the_right_to_read_events_the_job_still_waits(caplog):
    harness = queued()
    harness.world.fail("read_events", Forbidden("may not list events"), times=1000)
    await harness.reconcile(40, seconds=5)
    assert blocked(harness) == "PodGroup mnist has not been admitted: it has no phase yet"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["TFJob ml/mnist: cannot read the Events about its PodGroup: may not list events"]

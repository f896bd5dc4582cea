"""The Events about a PodGroup are read only when they are needed, and an error while reading is harmless."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from support.builders import T0
from support.harness import Harness, a_spec
from support.replace import replace
from support.virtual_time import clock, in_virtual_time
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import VOLCANO_GROUPS
from trainshed.client import Forbidden
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.transport import Answer, Request, RestClient
from trainshed.controller.reconciler import Reconciler

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


async def test_the_jobs_of_a_namespace_share_one_list_and_each_has_its_own_message():
    harness = queued()
    names = ["mnist", *(f"job-{number}" for number in range(14))]
    for name in names[1:]:
        harness.world.submit("TFJob", name, a_spec(Worker=2))
    harness.hear()

    async def pass_time(seconds: float) -> None:
        harness.world.now += timedelta(seconds=seconds)
        for name in names:
            await harness.reconciler.reconcile(JobKey("ml", "TFJob", name), harness.world.now)
        harness.hear()

    for _ in range(3):
        await pass_time(1)
    for name in names:
        group = harness.world.get(VOLCANO_GROUPS, name)["metadata"]
        about = {"kind": "PodGroup", "name": name, "uid": group["uid"]}
        event = {"metadata": {"name": f"{name}.1"}, "involvedObject": about, "reason": "Unschedulable"}
        harness.world.create("events", event | {"message": f"{name} must wait"})
    for _ in range(8):
        await pass_time(5)
    statuses = [harness.world.get("tfjobs", name)["status"] for name in names]
    assert [
        name for name, status in zip(names, statuses, strict=True) if f"({name} must wait)" not in str(status)
    ] == []
    assert harness.world.event_reads <= 2
    before = harness.world.event_reads
    for _ in range(120):
        await pass_time(30)
    assert harness.world.event_reads - before <= 20


class ManyEvents:
    """Answers lists of Events after two seconds, as of a namespace that has many, and all else at once."""

    async def exchange(self, request: Request) -> Answer:
        if not request.path.endswith("/events"):
            return Answer(404, b"{}")
        await asyncio.sleep(2)
        return Answer(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}')

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("namespaces", [1, 5])
def test_reads_of_events_that_take_long_delay_no_read_of_another_namespace(namespaces):
    async def story() -> list[float]:
        harness = Harness(a_spec(Worker=2))
        client = ApiClient(RestClient(ManyEvents()), TokenBucket())
        reconciler = Reconciler(client, harness.view, harness.recorder, harness.metrics)
        snapshot = harness.snapshot()

        def of(namespace: str):
            return replace(snapshot, job=replace(snapshot.job, namespace=namespace), now=T0)

        def read(namespace: str, number: int):
            return reconciler._read_events(JobKey(namespace, "TFJob", f"{number}"), of(namespace), "uid")

        crowd = [asyncio.create_task(read(f"many-{number % namespaces}", number)) for number in range(250)]
        await asyncio.sleep(0.01)
        began = clock()
        assert await reconciler._verify_pods(of("quiet"), ["mnist-worker-0"]) is None
        verified = clock() - began
        await read("quiet", 0)
        for task in crowd:
            task.cancel()
        return [verified, clock() - began]

    verified, read = in_virtual_time(story())
    assert verified < 0.1
    assert read < 2 + 2.5, "its own list, and one that it had to wait for"

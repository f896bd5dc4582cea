"""Each finished job that asks has one record, whatever fails in between; others cost nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from support.harness import KEY, Harness, a_spec
from support.virtual_time import clock, in_virtual_time
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Job
from trainshed.api.record_ring import LABEL, NAME
from trainshed.api.training import parse_report
from trainshed.client import Conflict, Forbidden, NotLeader, TooManyRequests, Unavailable
from trainshed.client.config_maps import ConfigMaps
from trainshed.controller.job_records import DELAYS, MOST_CONFLICTS, JobRecords
from trainshed.controller.observer import Observers

ASKS = {"trainshed.dev/record": "true"}
SITE = JobDefaults(record=True)
OTHERS = {"metadata": {"name": NAME}, "data": {"mine": "{}"}}


class Records:
    """A job with the records of the operator that reconciles it; `start` begins another operator."""

    def __init__(self, annotations: dict[str, str] = ASKS, defaults: JobDefaults = SITE, **policy: object) -> None:
        self.harness = Harness(job_defaults=defaults)
        self.events: list[tuple[str, str]] = []
        self.store = ConfigMaps(self.harness.world.client)
        self.harness.world.submit("TFJob", "mnist", a_spec(Worker=2, policy=policy), annotations)
        self.harness.hear()
        self.start()

    def start(self) -> None:
        """Another operator leads: it remembers nothing."""
        self.records = JobRecords(self.store, self._tell, self.harness.now)
        self.harness.reconciler._metrics = Observers(self.harness.metrics, self.records)

    def _tell(self, job: Job, event) -> None:
        self.events.append((job.name, event.reason))

    async def fail(self) -> None:
        """Let the job fail, and reconcile until its status says so."""
        await self.harness.run_all()
        self.harness.world.set_pod("mnist-worker-1", "Failed", code=1)
        self.harness.hear()
        await self.harness.reconcile(6, seconds=5)
        assert self.harness.job() is None or "Failed" in self.harness.states()

    async def write(self) -> list[dict]:
        """Write what is queued; return the records that there are."""
        await self.records.flush()
        return self.there()

    def there(self) -> list[dict]:
        """Return the records that there are."""
        found = self.harness.world.get("configmaps", NAME) or {"data": {}}
        return [json.loads(text) for text in found["data"].values()]

    @property
    def writes(self) -> list[str]:
        """The writes of ConfigMaps."""
        return [write for write in self.harness.world.writes if "configmaps" in write]

    @property
    def reads(self) -> list[str]:
        """The reads of ConfigMaps."""
        return [path for path in self.harness.world.reads if "configmaps" in path]


async def a_failed_job(**fields) -> Records:
    """A job that has failed, and of which no record is written yet."""
    found = Records(**fields)
    await found.fail()
    return found


async def test_a_job_that_fails_has_a_record():
    found = await a_failed_job()
    assert found.writes == []
    (record,) = await found.write()
    job = found.harness.job()
    assert record["metadata"]["uid"] == job["metadata"]["uid"]
    assert record["status"]["failure"] == job["status"]["failure"]
    assert record["status"]["failure"]["exitCode"] == 1
    assert found.writes == [f"create configmaps {NAME}"]
    assert found.harness.world.get("configmaps", NAME)["metadata"]["labels"][LABEL] == "true"


async def test_a_job_that_does_not_ask_costs_no_request():
    for asks, defaults in ({}, SITE), ({"trainshed.dev/record": "false"}, SITE), (ASKS, JobDefaults()):
        found = await a_failed_job(annotations=asks, defaults=defaults)
        assert await found.write() == []
        found.harness.world.delete("tfjobs")
        found.harness.hear()
        await found.harness.reconcile()
        assert (await found.write(), found.writes, found.reads) == ([], [], [])
        assert (found.records._open, found.records._kept, found.records._uids) == ({}, {}, {})


async def test_a_job_that_asks_in_vain_has_an_event():
    found = await a_failed_job(defaults=JobDefaults())
    await found.harness.recorder.flush()
    assert "event RecordDisabled" in found.harness.world.writes


async def test_a_job_costs_one_write_however_often_it_is_reconciled():
    found = await a_failed_job()
    await found.write()
    await found.harness.reconcile(5, seconds=60)
    await found.write()
    assert (len(found.writes), len(found.reads)) == (1, 1)


async def test_the_next_operator_reads_once_and_writes_nothing():
    found = await a_failed_job()
    (before,) = await found.write()
    found.start()
    await found.harness.reconcile(3, seconds=60)
    assert await found.write() == [before]
    assert (len(found.writes), len(found.reads)) == (1, 2)


async def test_after_a_crash_before_the_write_the_next_operator_writes_it():
    found = await a_failed_job()
    found.start()
    assert found.there() == []
    await found.harness.reconcile(seconds=60)
    (record,) = await found.write()
    assert record["status"]["state"] == "Failed"


@pytest.mark.parametrize("verb", ["create", "merge"])
async def test_after_a_lost_answer_there_is_one_record(verb: str):
    found = await a_failed_job()
    if verb == "merge":
        await found.store.create("ml", {"metadata": {"name": NAME, "labels": {LABEL: "true"}}, "data": {}})
    call = getattr(found.store, verb)

    async def losing(*arguments: object) -> None:
        await call(*arguments)
        setattr(found.store, verb, call)
        raise Unavailable("the response was lost")

    setattr(found.store, verb, losing)
    batch = found.records._queued.pop("ml")
    assert not await found.records._try("ml", batch, last=False)
    assert await found.records._try("ml", batch, last=False)
    assert len(found.there()) == 1
    assert found.events == []


async def test_another_writer_loses_nothing():
    found = await a_failed_job()
    await found.store.create("ml", {"metadata": {"name": NAME, "labels": {LABEL: "true"}}, "data": {}})
    read, times = found.store.read, []

    async def reading(namespace: str, name: str) -> object:
        answer = await read(namespace, name)
        if len(times) < 2:
            times.append(1)
            other = json.dumps({"kind": "TFJob", "metadata": {"name": f"other-{len(times)}"}, "record": {"form": 1}})
            found.harness.world.server.request(
                "user", "PATCH", f"/api/v1/namespaces/ml/configmaps/{NAME}", body={"data": {f"o{len(times)}": other}}
            )
        return answer

    found.store.read = reading
    names = [record["metadata"]["name"] for record in await found.write()]
    assert sorted(names) == ["mnist", "other-1", "other-2"]


async def test_a_config_map_that_is_deleted_meanwhile_is_created_again():
    found = await a_failed_job()
    await found.store.create("ml", {"metadata": {"name": NAME, "labels": {LABEL: "true"}}, "data": {}})
    read = found.store.read

    async def reading(namespace: str, name: str) -> object:
        found.store.read = read
        answer = await read(namespace, name)
        found.harness.world.delete("configmaps", NAME)
        return answer

    found.store.read = reading
    (record,) = await found.write()
    assert (record["status"]["state"], found.events) == ("Failed", [])


async def test_a_config_map_of_somebody_else_is_left_alone():
    found = await a_failed_job()
    found.harness.world.create("configmaps", OTHERS)
    await found.write()
    assert found.harness.world.get("configmaps", NAME)["data"] == {"mine": "{}"}
    assert found.events == [("mnist", "RecordNotKept")]
    await found.harness.reconcile(3, seconds=60)
    await found.write()
    assert len(found.events) == len(found.reads) == 1


@pytest.mark.parametrize(
    ("error", "events"),
    [
        (Forbidden("exceeded quota"), [("mnist", "RecordNotKept")]),
        (TooManyRequests("later"), [("mnist", "RecordNotKept")]),
        (Conflict("again"), [("mnist", "RecordNotKept")]),
        (NotLeader("another leads"), []),
    ],
)
async def test_a_refusal_has_one_event_and_delays_no_end(error: Exception, events: list):
    found = Records()

    async def refusing(*_arguments: object) -> None:
        raise error

    found.store.create = refusing
    await found.fail()
    await found.write()
    assert found.events == events
    await found.harness.reconcile(3, seconds=60)
    await found.write()
    assert found.events == events


def test_tries_are_few_and_ever_rarer():
    async def story() -> tuple[int, list, float]:
        found = await a_failed_job()
        tries: list[float] = []

        async def failing(*_arguments: object) -> None:
            tries.append(clock())
            raise Unavailable("no answer")

        found.store.read = failing
        began = clock()
        task = asyncio.create_task(found.records.run())
        await asyncio.sleep(3600)
        task.cancel()
        return len(tries), found.events, tries[-1] - began

    tries, events, took = in_virtual_time(story())
    assert (tries, events) == (len(DELAYS) + 1, [("mnist", "RecordNotKept")])
    assert took == pytest.approx(sum(DELAYS), abs=1)


def test_records_of_one_moment_are_one_write():
    async def story() -> Records:
        found = await a_failed_job()
        task = asyncio.create_task(found.records.run())
        await asyncio.sleep(0.1)
        ended = found.records._queued["ml"]
        (one,) = ended.values()
        ended["other-uid"] = one
        await asyncio.sleep(60)
        task.cancel()
        return found

    found = in_virtual_time(story())
    assert (len(found.there()), found.writes) == (2, [f"create configmaps {NAME}"])


async def test_a_conflict_each_time_ends():
    found = await a_failed_job()
    await found.store.create("ml", {"metadata": {"name": NAME, "labels": {LABEL: "true"}}, "data": {}})

    async def conflicting(*_arguments: object) -> None:
        raise Conflict("changed")

    found.store.merge = conflicting
    await found.write()
    assert len(found.reads) == MOST_CONFLICTS


async def test_a_job_that_is_deleted_before_its_end_has_a_record():
    found = Records()
    await found.harness.run_all()
    found.harness.world.delete("tfjobs")
    found.harness.hear()
    await found.harness.reconcile()
    (record,) = await found.write()
    assert record["record"]["deletedBeforeItsEnd"]
    assert record["status"]["state"] == "Running"


async def test_a_job_that_is_deleted_after_its_end_keeps_its_record():
    found = await a_failed_job(ttlSecondsAfterFinished=0)
    assert found.harness.job() is None
    await found.harness.reconcile()
    (record,) = await found.write()
    assert record["status"]["state"] == "Failed"
    assert "deletedBeforeItsEnd" not in record["record"]


async def test_a_job_of_the_same_name_has_its_own_record():
    found = await a_failed_job()
    await found.write()
    found.harness.world.delete("tfjobs")
    for name in list(found.harness.world.pods):
        found.harness.world.delete("pods", name, 0)
    found.harness.world.submit("TFJob", "mnist", a_spec(Worker=2), ASKS)
    found.harness.hear()
    await found.fail()
    assert len({record["metadata"]["uid"] for record in await found.write()}) == 2


async def test_reports_become_a_curve():
    found = Records()
    await found.harness.run_all()
    for step in range(200):
        found.harness.world.now += timedelta(seconds=20)
        report = parse_report(
            {"step": step, "metrics": [{"name": "loss", "value": f"{1 / (step + 1)}"}]}, found.harness.now()
        )
        found.harness.view.training.report(KEY, found.harness.snapshot().job.uid, report)
        await found.harness.reconcile()
    found.harness.world.set_pod("mnist-worker-1", "Failed", code=1)
    found.harness.hear()
    await found.harness.reconcile(6, seconds=5)
    (record,) = await found.write()
    curve = record["record"]["curve"]
    assert curve["metric"] == "loss"
    assert 20 < len(curve["points"]) <= 60
    assert (curve["points"][0][1], curve["points"][-1][1]) == (0, 199)


async def test_who_leads_no_more_writes_nothing():
    found = await a_failed_job()
    found.records.step_down()
    assert (await found.write(), found.reads) == ([], [])


def test_a_wait_for_one_namespace_delays_no_other():
    async def story() -> list[str]:
        found = await a_failed_job()
        read: Callable = found.store.read
        batch = found.records._queued
        batch["slow"] = dict(batch["ml"])
        written: list[str] = []

        async def reading(namespace: str, name: str) -> object:
            if namespace == "slow":
                await asyncio.sleep(10_000)
            written.append(namespace)
            return await read(namespace, name)

        found.store.read = reading
        task = asyncio.create_task(found.records.run())
        await asyncio.sleep(5)
        task.cancel()
        return written

    assert in_virtual_time(story()) == ["ml"]

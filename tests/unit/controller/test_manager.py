"""The operator starts, reports its state and shuts down in order, even without an API server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from support.builders import a_job, a_pod, cached, plan_for, running, seen
from support.replace import replace
from testbed.ports import free_port
from trainshed.api.actions import CreatePod
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.client import NotLeader
from trainshed.client.credentials import Credentials
from trainshed.client.http import HttpTransport
from trainshed.config import Config
from trainshed.controller.manager import ALTOGETHER, ANSWERS, SHUTDOWN_GRACE, Operator
from trainshed.frameworks import FRAMEWORKS
from trainshed.process import Clock


def an_operator(settings: Config) -> Operator:
    """An operator whose API server does not respond."""
    return Operator(settings, FRAMEWORKS, HttpTransport(Credentials(server="http://127.0.0.1:1")), Clock())


def list_all(operator: Operator) -> None:
    for informer in operator._controller.informers:
        informer._received()
        informer.synced.set()


@pytest.fixture
def settings() -> Config:
    health, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    return Config(health=health, metrics=metrics)


@pytest.fixture
async def alone(settings) -> AsyncIterator[Operator]:
    """A running operator whose API server does not respond."""
    operator = an_operator(settings)
    await operator.start()
    await asyncio.sleep(0.3)
    yield operator
    await operator.stop()


async def ask(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


async def test_without_an_api_server_it_is_healthy_but_not_ready(alone, settings, caplog):
    assert await ask(settings.health, "/healthz") == (200, "ok\n")
    status, text = await ask(settings.health, "/readyz")
    assert (status, text.partition(": ")[0].strip()) == (503, "the cache of tfjobs has not synced yet")
    await asyncio.sleep(1.5)
    assert not alone.over.is_set()
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) <= len({message.partition(": ")[0] for message in warnings})


async def test_requests_to_the_api_server_are_counted(alone, settings):
    status, text = await ask(settings.metrics, "/metrics")
    assert status == 200
    assert 'trainshed_api_requests_total{code="none",resource="pods",verb="GET"}' in text
    assert 'trainshed_watch_last_event_age_seconds{resource="tfjobs"}' in text
    assert 'trainshed_jobs{framework="pytorch",state="Running"} 0.0' in text
    assert "trainshed_leader 0.0" in text, "without an API server no replica holds the Lease"
    assert {"trainshed_event_loop_lag_seconds", "trainshed_clock_step_seconds"} <= set(text.split())


async def test_the_counters_of_a_namespace_are_removed_after_its_last_job(settings, monkeypatch):
    monkeypatch.setattr("trainshed.controller.manager.COUNTER_EXPIRY_INTERVAL", 0.1)
    operator, job = an_operator(settings), a_job(worker=1)
    jobs = operator._caches.all[""].cache.jobs["TFJob"]
    jobs.changed(record := cached(job))
    operator._metrics.on_reconcile(seen(job))
    await operator.start()
    await asyncio.sleep(0.5)
    assert b'job_namespace="ml"' in operator._metrics.text()
    jobs.removed(record)
    await asyncio.sleep(0.5)
    assert b'job_namespace="ml"' not in operator._metrics.text()
    await operator.stop()


async def test_an_operator_that_loses_the_lease_forgets_the_failed_pods_that_it_has_counted(settings):
    operator, job = an_operator(settings), a_job(worker=1)
    failed = replace(seen(job, a_pod("worker-0", "Failed")), status=running(job))

    def counted() -> float | None:
        labels = {"job_namespace": job.namespace, "framework": "tensorflow"}
        return operator._metrics.registry.get_sample_value("failed_pods_total", labels)

    operator._metrics.on_reconcile(seen(job, status=running(job)))
    operator._step_down()
    operator._metrics.on_reconcile(replace(failed, status=plan_for(job, *failed.pods, status=running(job)).status))
    assert counted() == 0, "the status has the failure: another leader has counted it"


@pytest.mark.fault("A17")
async def test_no_job_is_reconciled_before_the_cache_sync(settings):
    operator, works = an_operator(replace(settings, leader_elect=False)), asyncio.Event()

    async def work() -> None:
        works.set()
        await asyncio.sleep(60)

    operator._controller.worker.run = work
    await operator.start()
    *others, last = operator._controller.informers
    for informer in others:
        informer.synced.set()
    await asyncio.sleep(0.1)
    assert not works.is_set()
    assert not operator.ready.is_set()
    last.synced.set()
    async with asyncio.timeout(5):
        await asyncio.gather(works.wait(), operator.ready.wait())
    await operator.stop()


async def test_events_of_unknown_jobs_are_ignored(alone):
    alone.seen(JobKey("ml", "TFJob", "unknown"), "1")
    await asyncio.sleep(0.1)
    assert not alone.over.is_set()


async def test_after_the_shutdown_no_task_runs(settings):
    before = asyncio.all_tasks()
    operator = an_operator(settings)
    await operator.start()
    await asyncio.sleep(0.1)
    assert len(asyncio.all_tasks() - before) >= 8
    await operator.stop()
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    assert not operator.broken, "a requested shutdown is not an error"
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(settings.health, "/healthz")


async def test_the_lease_is_released_after_the_last_action(settings):
    operator, finished = an_operator(settings), []

    def then(word, call):
        async def both(*arguments):
            found = await call(*arguments)
            finished.append(word)
            return found

        return both

    operator._controller.worker.finish = then("all reconciles are over", operator._controller.worker.finish)
    operator._elector.release = then("the Lease is free", operator._elector.release)
    await operator.start()
    await operator.stop()
    assert finished == ["all reconciles are over", "the Lease is free"]


async def test_the_process_stops_when_a_background_task_exits(settings, caplog):
    operator = an_operator(settings)

    async def falls() -> None:
        raise ZeroDivisionError

    operator._controller.recorder.run = falls
    await operator.start()
    async with asyncio.timeout(5):
        await operator.over.wait()
    assert operator.broken
    assert any("falls exited unexpectedly" in record.getMessage() for record in caplog.records)
    await operator.stop()


async def test_an_address_that_is_in_use_is_an_error_with_a_name(settings):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        port = door.getsockname()[1]
        operator = an_operator(Config(health=f"127.0.0.1:{port}"))
        with pytest.raises(OSError, match=str(port)):
            await operator.start()
        await operator.stop()


async def test_with_a_gang_scheduler_startup_waits_for_discovery(settings, caplog):
    operator = an_operator(replace(settings, job_defaults=JobDefaults(gang_scheduler="volcano")))
    beginning = asyncio.create_task(operator.start())
    await asyncio.sleep(0.3)
    assert await ask(settings.health, "/healthz") == (200, "ok\n")
    assert (await ask(settings.health, "/readyz"))[0] == 503
    assert not beginning.done()
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.partition(": ")[0] for line in warnings] == ["cannot discover scheduling.volcano.sh/v1beta1"]
    beginning.cancel()
    await operator.stop()


async def test_a_synced_replica_without_the_lease_is_ready(settings):
    operator = an_operator(settings)
    list_all(operator)
    assert not operator._client.may_write()
    assert operator.problem() == ""
    await operator.stop()


async def test_readyz_names_a_forbidden_lease_and_a_forbidden_list(settings):
    operator = an_operator(replace(settings, namespaces=("b",)))
    operator._elector.refused = "cannot acquire the Lease a/trainshed: forbidden"
    list_all(operator)
    operator._controller.informers[-1].refused = "forbidden"
    what = operator._controller.informers[-1].what
    problems = [operator._elector.refused, f"cannot list and watch {what}: forbidden"]
    assert operator.problem().splitlines() == problems
    assert what.endswith(" in namespace b")
    await operator.stop()


async def test_at_shutdown_hanging_reconciles_are_cancelled_and_write_nothing(settings):
    operator = an_operator(replace(settings, leader_elect=False))
    broken_off = asyncio.Event()

    async def hang(_key: JobKey, _now: object) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            broken_off.set()

    operator._caches.all[""].reconciler.reconcile = hang
    operator._caches.any_ready.set()
    await operator.start()
    operator._controller.queue.add(JobKey("ml", "TFJob", "mnist"))
    await asyncio.sleep(0.1)
    began = asyncio.get_running_loop().time()
    await operator.stop()
    assert asyncio.get_running_loop().time() - began < 4
    assert broken_off.is_set()


@pytest.mark.parametrize(
    ("under_way", "least"), [(0, ALTOGETHER - 0.2), (60, ALTOGETHER - SHUTDOWN_GRACE - ANSWERS - 0.2)]
)
async def test_releasing_the_lease_has_the_rest_of_the_shutdown_time(settings, under_way, least):
    operator = an_operator(settings)
    left = []

    async def finish(seconds: float) -> bool:
        await asyncio.sleep(min(seconds, under_way))
        return under_way <= seconds

    async def release(within: float) -> None:
        left.append(within)

    operator._controller.worker.finish, operator._elector.release = finish, release
    await operator.start()
    await operator.stop()
    assert least <= left.pop() <= ALTOGETHER
    assert not left
    with pytest.raises(NotLeader):
        await operator._client.create_pod("ml", CreatePod("late", "job-uid", dict))

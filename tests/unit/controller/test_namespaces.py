"""Each namespace has a cache of its own; a problem in one does not affect the others."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.client import Forbidden, NotFound
from trainshed.client.transport import RestClient
from trainshed.controller.events import EventRecorder
from trainshed.controller.health import MAX_SILENCE
from trainshed.controller.metrics import Metrics
from trainshed.controller.namespaces import Dependencies, NamespaceCache, NamespaceCaches
from trainshed.controller.reconciler import Result
from trainshed.frameworks.jax import JAX
from trainshed.frameworks.tensorflow import TENSORFLOW

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def woken() -> list[JobKey]:
    return []


@pytest.fixture
def districts(woken) -> NamespaceCaches:
    return some("a", "b", woken=woken)


def some(*names: str, woken: list[JobKey]) -> NamespaceCaches:
    recorder = EventRecorder(None, lambda: None, lambda: NOW)
    means = Dependencies(RestClient(None), None, recorder, Metrics(), woken.append)
    return NamespaceCaches(NamespaceCache(name, (TENSORFLOW,), JobDefaults(), means) for name in names)


def tell_of(district: NamespaceCache, name: str) -> JobKey:
    """Deliver a watch event of a job to its namespace cache."""
    metadata = {"namespace": district.namespace, "name": name, "uid": name, "resourceVersion": "1"}
    store = district.cache.jobs["TFJob"]
    store.changed(district.cache.record({"metadata": metadata, "spec": {}}, TENSORFLOW))
    return JobKey(district.namespace, "TFJob", name)


def list_all(district: NamespaceCache) -> None:
    for informer in district.informers:
        informer._received()
        informer.synced.set()


async def test_jobs_are_enqueued_after_the_cache_sync_of_their_namespace(districts, woken, caplog):
    caplog.set_level(logging.INFO)
    opening = asyncio.create_task(districts.open())
    keys = [tell_of(district, "mnist") for district in districts.all.values()]
    districts.wake(keys[0], "1000")
    await asyncio.sleep(0)
    assert woken == districts.known() == []
    assert not districts.any_ready.is_set()
    list_all(districts.all["a"])
    async with asyncio.timeout(1):
        await districts.any_ready.wait()
    assert woken == districts.known() == keys[:1]
    assert not opening.done()
    list_all(districts.all["b"])
    async with asyncio.timeout(1):
        await opening
    assert districts.known() == woken == keys
    assert [record.getMessage() for record in caplog.records] == [
        "ready: namespace a: 1 jobs, 0 pods",
        "ready: namespace b: 1 jobs, 0 pods",
    ]
    districts.wake(keys[1], "1000")
    assert woken == [*keys, keys[1]]


async def test_readiness_problems_are_reported_per_namespace(districts):
    list_all(districts.all["a"])
    assert districts.problem() == "the cache of tfjobs in namespace b has not synced yet"
    for informer in districts.all["b"].informers:
        informer._after(Forbidden(f"{informer.plural} is forbidden: User u cannot list it"))
    first, *_ = districts.all["b"].informers
    assert first.refused
    said = "cannot list and watch tfjobs in namespace b: tfjobs is forbidden: User u cannot list it"
    assert districts.problem() == said
    list_all(districts.all["b"])
    assert districts.problem() == ""
    first.heard -= MAX_SILENCE + 2
    assert districts.problem() == f"the watch of tfjobs in namespace b has received nothing for {MAX_SILENCE + 2:.0f} s"
    assert districts.silences()["tfjobs"] == pytest.approx(MAX_SILENCE + 2, abs=1)
    assert districts.silences()["pods"] < 1


async def test_permanent_problems_come_before_transient_ones(woken):
    districts = some("", woken=woken)
    districts.all[""].informers[1]._after(Forbidden("pods is forbidden"))
    assert districts.problem() == "cannot list and watch pods: pods is forbidden"


def missing(*districts: NamespaceCache) -> None:
    """Answer a list of TFJobs with 404."""
    for district in districts:
        district.informers[0]._after(NotFound("the server could not find the requested resource"))


async def test_a_namespace_without_any_crd_is_not_ready(districts, caplog):
    a, b = districts.all.values()
    list_all(a)
    list_all(b)
    missing(b)
    what = "the API server serves none of tfjobs in namespace b: install the CRDs"
    assert districts.problem() == what
    async with asyncio.timeout(1):
        await b.open()
    assert what in [record.getMessage() for record in caplog.records]
    list_all(b)
    assert districts.problem() == "", "they were installed"


async def test_a_missing_crd_is_named_and_does_not_affect_other_kinds(caplog):
    recorder = EventRecorder(None, lambda: None, lambda: NOW)
    means = Dependencies(RestClient(None), None, recorder, Metrics(), lambda _key: None)
    district = NamespaceCache("", (TENSORFLOW, JAX), JobDefaults(), means)
    districts = NamespaceCaches([district])
    list_all(district)
    assert districts.remark() == ""
    district.informers[0].heard = 0.0
    missing(district)
    assert districts.problem() == ""
    remark = "CRDs not installed: tfjobs; their jobs are reconciled once the CRDs are installed"
    assert districts.remark() == remark
    assert "tfjobs" not in districts.silences(), "a missing kind has no watch"
    assert "jaxjobs" in districts.silences()
    async with asyncio.timeout(1):
        await districts.open()
    assert remark in [record.getMessage() for record in caplog.records]


async def test_a_namespace_whose_pods_cannot_be_listed_is_not_ready(districts):
    for district in districts.all.values():
        list_all(district)
    districts.all["a"].informers[1]._after(NotFound("404 page not found"))
    assert districts.problem() == "the API server does not serve pods in namespace a"


async def test_jobs_are_routed_to_the_cache_of_their_namespace(districts, woken):
    list_all(districts.all["a"])
    opening = asyncio.create_task(districts.open())
    await asyncio.sleep(0.01)
    looked = []

    async def look(key: JobKey, _now: datetime) -> Result:
        looked.append(key)
        return Result(message="looked")

    districts.all["a"].reconciler.reconcile = look
    ours, theirs = JobKey("a", "TFJob", "mnist"), JobKey("c", "TFJob", "mnist")
    assert (await districts.reconcile(ours, NOW)).message == "looked"
    assert (await districts.reconcile(theirs, NOW)).message == ""
    assert looked == [ours]
    districts.wake(ours, "1000")
    districts.wake(theirs, "1000")
    assert woken == [ours]
    opening.cancel()


async def test_the_whole_cluster_has_one_cache(woken):
    districts = some("", woken=woken)
    list_all(districts.all[""])
    await districts.open()
    districts.wake(JobKey("anywhere", "TFJob", "mnist"), "1000")
    assert woken == [JobKey("anywhere", "TFJob", "mnist")]


async def test_jobs_are_counted_over_all_namespaces(districts):
    for district in districts.all.values():
        tell_of(district, "mnist")
    assert districts.states() == {("TFJob", "New"): 2}
    assert districts.inhabited() == {(namespace, "TFJob") for namespace in districts.all}


async def test_stepping_down_affects_all_namespaces(districts):
    before = [district.reconciler._failed_pods for district in districts.all.values()]
    districts.step_down()
    after = [district.reconciler._failed_pods for district in districts.all.values()]
    assert not any(old is new for old, new in zip(before, after, strict=True))

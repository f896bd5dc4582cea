"""Each namespace has a cache of its own; a problem in one does not affect the others."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA
from trainshed.client import Forbidden, NotFound
from trainshed.client.transport import RestClient
from trainshed.controller.events import EventRecorder
from trainshed.controller.metrics import Metrics
from trainshed.controller.namespaces import MAX_SILENCE, Dependencies, NamespaceCache, NamespaceCaches
from trainshed.frameworks.jax import JAX
from trainshed.frameworks.tensorflow import TENSORFLOW

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def woken() -> list[JobKey]:
    return []


@pytest.fixture
def caches(woken) -> NamespaceCaches:
    return some("a", "b", woken=woken)


def some(*names: str, woken: list[JobKey]) -> NamespaceCaches:
    recorder = EventRecorder(None, lambda: None, lambda: NOW)
    dependencies = Dependencies(RestClient(None), None, recorder, Metrics(), woken.append)
    return NamespaceCaches(NamespaceCache(name, (TENSORFLOW,), JobDefaults(), dependencies) for name in names)


async def test_jobs_of_a_kind_do_not_wait_for_the_cache_sync_of_other_kinds(woken):
    recorder = EventRecorder(None, lambda: None, lambda: NOW)
    dependencies = Dependencies(RestClient(None), None, recorder, Metrics(), woken.append)
    caches = NamespaceCaches([NamespaceCache("a", (JAX, TENSORFLOW), JobDefaults(), dependencies)])
    namespaced = caches.all["a"]
    opening = asyncio.create_task(caches.sync())
    key = add_job(namespaced, "mnist")
    *others, slow = sorted(namespaced.informers, key=lambda informer: informer.plural == JAX.plural)
    for informer in others:
        assert not woken, "pods and Services come first"
        informer.synced.set()
        await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await caches.any_ready.wait()
    assert woken == caches.known() == [key]
    assert not namespaced.ready.is_set()
    slow._received()
    slow.synced.set()
    async with asyncio.timeout(1):
        await opening
    assert namespaced.ready.is_set()
    assert woken == [key]


def add_job(namespaced: NamespaceCache, name: str) -> JobKey:
    """Deliver a watch event of a job to its namespace cache."""
    metadata = {"namespace": namespaced.namespace, "name": name, "uid": name, "resourceVersion": "1"}
    store = namespaced.cache.jobs["TFJob"]
    store.changed(namespaced.cache.record({"metadata": metadata, "spec": {}}, TENSORFLOW))
    return JobKey(namespaced.namespace, "TFJob", name)


def list_all(namespaced: NamespaceCache) -> None:
    for informer in namespaced.informers:
        informer._received()
        informer.synced.set()


async def test_jobs_are_enqueued_after_the_cache_sync_of_their_namespace(caches, woken, caplog):
    caplog.set_level(logging.INFO)
    opening = asyncio.create_task(caches.sync())
    keys = [add_job(namespaced, "mnist") for namespaced in caches.all.values()]
    caches.seen(keys[0], "1000")
    await asyncio.sleep(0)
    assert woken == caches.known() == []
    assert not caches.any_ready.is_set()
    list_all(caches.all["a"])
    async with asyncio.timeout(1):
        await caches.any_ready.wait()
    assert woken == caches.known() == keys[:1]
    assert not opening.done()
    list_all(caches.all["b"])
    async with asyncio.timeout(1):
        await opening
    assert caches.known() == woken == keys
    assert [record.getMessage() for record in caplog.records] == [
        "ready: namespace a: 1 jobs, 0 pods",
        "ready: namespace b: 1 jobs, 0 pods",
    ]
    caches.seen(keys[1], "1000")
    assert woken == [*keys, keys[1]]


def refuse(namespaced: NamespaceCache) -> str:
    """Refuse all lists of a namespace; return the problem."""
    for informer in namespaced.informers:
        informer._after(Forbidden(f"{informer.plural} is forbidden: User u cannot list it"))
    namespace = namespaced.namespace
    return f"cannot list and watch tfjobs in namespace {namespace}: tfjobs is forbidden: User u cannot list it"


async def test_readiness_problems_are_reported_per_namespace(caches):
    a, b = caches.all.values()
    list_all(a)
    assert caches.problem() == "the cache of tfjobs in namespace b has not synced yet"
    said = refuse(b)
    first, *_ = b.informers
    assert first.refused
    assert (caches.problem(), caches.remarks()) == ("", said)
    assert caches.watch_ages()["tfjobs"] < 1
    assert [refuse(a), said] == caches.problem().splitlines(), "none is served"
    list_all(a)
    list_all(b)
    assert (caches.problem(), caches.remarks()) == ("", "")
    first.heard -= MAX_SILENCE + 2
    assert caches.problem() == f"the watch of tfjobs in namespace b has received nothing for {MAX_SILENCE + 2:.0f} s"
    assert caches.watch_ages()["tfjobs"] == pytest.approx(MAX_SILENCE + 2, abs=1)
    assert caches.watch_ages()["pods"] < 1


async def test_permanent_problems_come_before_transient_ones(woken):
    caches = some("", woken=woken)
    caches.all[""].informers[1]._after(Forbidden("pods is forbidden"))
    assert caches.problem() == "cannot list and watch pods: pods is forbidden"


def missing(*caches: NamespaceCache) -> None:
    """Answer a list of TFJobs with 404."""
    for namespaced in caches:
        namespaced.informers[0]._after(NotFound("the server could not find the requested resource"))


async def test_a_namespace_without_any_crd_is_not_served(caches, caplog):
    a, b = caches.all.values()
    list_all(a)
    list_all(b)
    missing(b)
    what = "the API server serves none of tfjobs in namespace b: install the CRDs"
    assert (caches.problem(), caches.remarks()) == ("", what)
    missing(a)
    assert what in caches.problem()
    list_all(a)
    async with asyncio.timeout(1):
        await b.sync(lambda: None)
    assert what in [record.getMessage() for record in caplog.records]
    list_all(b)
    assert caches.problem() == caches.remarks() == "", "they were installed"


async def test_a_missing_crd_is_named_and_does_not_affect_other_kinds(caplog):
    recorder = EventRecorder(None, lambda: None, lambda: NOW)
    dependencies = Dependencies(RestClient(None), None, recorder, Metrics(), lambda _key: None)
    namespaced = NamespaceCache("", (TENSORFLOW, JAX), JobDefaults(), dependencies)
    caches = NamespaceCaches([namespaced])
    list_all(namespaced)
    assert caches.remarks() == ""
    namespaced.informers[0].heard = 0.0
    missing(namespaced)
    assert caches.problem() == ""
    missing_crds = "CRDs not installed: tfjobs; their jobs are reconciled once the CRDs are installed"
    assert caches.remarks() == missing_crds
    assert "tfjobs" not in caches.watch_ages(), "a missing kind has no watch"
    assert "jaxjobs" in caches.watch_ages()
    async with asyncio.timeout(1):
        await caches.sync()
    assert missing_crds in [record.getMessage() for record in caplog.records]


async def test_pod_groups_of_kubernetes_may_be_missing_and_jobs_know_which_are_served(woken):
    recorder = EventRecorder(None, lambda: None, lambda: NOW)
    dependencies = Dependencies(RestClient(None), None, recorder, Metrics(), woken.append)
    namespaced = NamespaceCache("a", (TENSORFLOW,), JobDefaults(gang_scheduler="kubernetes"), dependencies)
    key = add_job(namespaced, "mnist")
    list_all(namespaced)
    for informer in namespaced.informers:
        informer.missing = informer.plural == "podgroups"
    assert namespaced.problem() == ""
    assert namespaced.cache.snapshot(key, NOW).unserved == (KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA)
    namespaced.cache.dependents[KUBERNETES_GROUPS].store.replaced([], "5")
    assert namespaced.cache.snapshot(key, NOW).unserved == (KUBERNETES_GROUPS_ALPHA,)
    namespaced.watch_pod_groups((KUBERNETES_GROUPS,))
    watched = [informer.prefix for informer in namespaced.informers if informer.plural == "podgroups"]
    assert watched == [KUBERNETES_GROUPS.prefix]


async def test_a_namespace_whose_pods_cannot_be_listed_is_not_served(caches):
    for namespaced in caches.all.values():
        list_all(namespaced)
        await namespaced.sync(lambda: None)
    caches.all["a"].informers[1]._after(NotFound("404 page not found"))
    assert (caches.problem(), caches.remarks()) == ("", "the API server does not serve pods in namespace a")
    assert caches.served() == {"a": False, "b": True}
    caches.all["b"].informers[1]._after(NotFound("404 page not found"))
    assert len(caches.problem().splitlines()) == 2


async def test_events_of_jobs_are_routed_to_the_cache_of_their_namespace(caches, woken):
    list_all(caches.all["a"])
    opening = asyncio.create_task(caches.sync())
    await asyncio.sleep(0.01)
    own, theirs = JobKey("a", "TFJob", "mnist"), JobKey("c", "TFJob", "mnist")
    caches.seen(own, "1000")
    caches.seen(theirs, "1000")
    assert woken == [own]
    opening.cancel()


async def test_the_whole_cluster_has_one_cache(woken):
    caches = some("", woken=woken)
    list_all(caches.all[""])
    await caches.sync()
    caches.seen(JobKey("anywhere", "TFJob", "mnist"), "1000")
    assert woken == [JobKey("anywhere", "TFJob", "mnist")]


async def test_jobs_are_counted_over_all_namespaces(caches):
    for namespaced in caches.all.values():
        add_job(namespaced, "mnist")
    assert caches.states() == {("TFJob", "Pending"): 2}
    assert caches.namespaces_and_kinds() == {(namespace, "TFJob") for namespace in caches.all}


async def test_stepping_down_affects_all_namespaces(caches):
    before = [namespaced.reconciler._debounce for namespaced in caches.all.values()]
    caches.step_down()
    after = [namespaced.reconciler._debounce for namespaced in caches.all.values()]
    assert not any(old is new for old, new in zip(before, after, strict=True))

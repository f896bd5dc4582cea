"""The finalizer of pods whose job is gone is removed."""

from __future__ import annotations

import asyncio

from support.harness import Office, a_spec
from support.virtual_time import hastily
from trainshed.api.framework import JobDefaults
from trainshed.client import Conflict
from trainshed.controller.finalizers import INTERVAL, OrphanedFinalizers
from trainshed.frameworks.tensorflow import TENSORFLOW

KEEPS = {"trainshed.dev/track-results": "true"}


async def an_orphaned_pod() -> Office:
    """A harness whose job is gone with its pods, one of which has the finalizer; the watches have delivered that."""
    office = Office(job_defaults=JobDefaults(track_results=True))
    office.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=1), KEEPS)
    office.hear()
    await office.run_all()
    job = office.job()
    known = job["metadata"]
    await office.world.delete_job(TENSORFLOW, "ml", "mnist", known["uid"], known["resourceVersion"])
    for name in list(office.world.pods):
        office.world.confirm_deletion(name)
    office.hear()
    assert [(pod.name, pod.has_finalizer, pod.deleting) for pod in office.world.pods.values()] == [
        ("mnist-chief-0", True, True)
    ]
    return office


def orphans(office: Office, *, may_act: bool = True) -> OrphanedFinalizers:
    return OrphanedFinalizers(office.world, office.view, lambda: may_act)


async def test_the_finalizer_of_a_pod_whose_job_is_gone_is_removed():
    office = await an_orphaned_pod()
    await orphans(office).reconcile()
    assert office.world.pods == {}
    assert office.view.orphans() == []


async def test_the_finalizer_of_a_pod_without_owner_is_removed_before_its_deletion():
    office = Office(job_defaults=JobDefaults(track_results=True))
    office.world.submit("TFJob", "mnist", a_spec(Chief=1), KEEPS)
    office.hear()
    await office.run_all()
    (name,) = office.world.pods
    office.world.set_pod(name, "Running", owner="")
    office.hear()
    await orphans(office).reconcile()
    assert not office.world.pods[name].has_finalizer


async def test_the_finalizer_of_a_pod_whose_job_is_not_cached_yet_stays():
    office = await an_orphaned_pod()
    (pod,) = office.world.pods.values()
    office.world.submit("TFJob", "mnist", a_spec(Chief=1))
    office.world.jobs["TFJob", "mnist"]["metadata"]["uid"] = pod.owner
    await orphans(office).reconcile()
    assert list(office.world.pods) == ["mnist-chief-0"]


async def test_a_conflict_is_retried_in_the_next_round():
    office = await an_orphaned_pod()
    release, office.world.release_pod = office.world.release_pod, refuse
    await orphans(office).reconcile()
    assert list(office.world.pods) == ["mnist-chief-0"]
    office.world.release_pod = release
    await orphans(office).reconcile()
    assert office.world.pods == {}


async def refuse(*_):
    raise Conflict("another was first")


def test_the_search_is_periodic_and_only_by_the_leader():
    async def watch(may_act: bool) -> bool:
        office = await an_orphaned_pod()
        running = asyncio.ensure_future(orphans(office, may_act=may_act).run())
        await asyncio.sleep(1.5 * INTERVAL)
        running.cancel()
        return not office.world.pods

    assert hastily(watch(True)) is True
    assert hastily(watch(False)) is False

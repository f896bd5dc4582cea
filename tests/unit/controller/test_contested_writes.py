"""What another client changes faster than the operator can write it is written all the same, and never what is over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from support.harness import Harness, a_spec
from support.jobs import job
from support.world import World
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import CONFIG_MAPS, ROLES
from trainshed.client import Unavailable
from trainshed.controller.orphans import Orphans
from trainshed.controller.undone_writes import CONTESTED

KEEPS = {"trainshed.dev/track-results": "true"}


def precede(world: World, verb: str, change: Callable[[], object]) -> None:
    """Let another client change something before each call of a method of the client."""
    call = getattr(world, verb)

    async def late(*arguments: object) -> object:
        change()
        return await call(*arguments)

    setattr(world, verb, late)


def touch(world: World, what: object, *names: str) -> Callable[[], None]:
    """Return a function that gives objects a new annotation, if they are there."""

    def change() -> None:
        for name in names:
            if world.get(what, name):
                world.patch(what, name, {"annotations": {"stamp": str(world.server.store.version)}})

    return change


async def a_running_job(policy: dict | None = None, **roles: int) -> Harness:
    harness = Harness(job_defaults=JobDefaults(track_results=True))
    harness.world.submit("TFJob", "mnist", a_spec(policy=policy, **roles), KEEPS)
    harness.hear()
    await harness.run_all()
    return harness


async def test_running_pods_that_are_patched_all_the_time_are_deleted_after_the_deadline():
    harness = await a_running_job({"activeDeadlineSeconds": 60}, PS=1, Worker=1)
    names = list(harness.world.pods)
    precede(harness.world, "delete_pod", touch(harness.world, "pods", *names))
    harness.world.now += timedelta(seconds=60)
    await harness.reconcile(2 * CONTESTED, seconds=1)
    assert harness.states() == ["Created", "Failed"]
    assert [pod.deleting for pod in harness.world.pods.values()] == [True, True]
    assert {pod.name for pod in harness.view.pods.store.items.values()} == set(names)


@pytest.mark.parametrize("label", ["there", "removed"])
async def test_a_pod_that_has_ended_before_a_late_watch_says_so_stays_however_often_its_deletion_is_tried(label):
    harness = await a_running_job({"activeDeadlineSeconds": 60}, PS=1)
    (name,) = harness.world.pods
    harness.world.set_pod(name, "Succeeded")
    if label == "removed":
        harness.world.hide(name)
    harness.world.now += timedelta(seconds=60)
    await harness.reconcile(2 * CONTESTED, seconds=1, deaf=True)
    assert not harness.world.pods[name].deleting
    known = [pod.phase for pod in harness.view.pods.store.items.values()]
    assert known == (["Succeeded"] if label == "there" else [])


@pytest.mark.parametrize("others", [[], ["example.com/other"]])
async def test_the_finalizer_of_a_succeeded_pod_that_is_patched_all_the_time_is_removed(others):
    harness = await a_running_job(Worker=1)
    (name,) = harness.world.pods
    precede(harness.world, "release_pod", touch(harness.world, "pods", name))
    found = harness.world.get("pods", name)["metadata"]["finalizers"]
    harness.world.patch("pods", name, {"finalizers": [*found, *others]})
    harness.world.set_pod(name, "Succeeded")
    harness.hear()
    await harness.reconcile(3 * CONTESTED, seconds=1)
    assert harness.states() == ["Created", "Succeeded"]
    assert harness.world.get("pods", name)["metadata"].get("finalizers", []) == others


async def test_the_finalizer_of_an_orphan_that_is_patched_all_the_time_is_removed():
    harness = await a_running_job(Worker=1)
    (name,) = harness.world.pods
    precede(harness.world, "release_pod", touch(harness.world, "pods", name))
    harness.world.delete("tfjobs")
    harness.hear()
    await Orphans(harness.world, harness.view, lambda: True, track_results=True).reconcile()
    assert not harness.world.pods[name].has_finalizer


@pytest.mark.parametrize(("kind", "name"), [(CONFIG_MAPS, "mnist-config"), (ROLES, "mnist-launcher")])
async def test_a_dependent_that_is_patched_all_the_time_is_updated(kind, name):
    harness = Harness()
    harness.world.submit("MPIJob", "mnist", job("MPIJob", "mnist", Launcher=1, Worker=1)["spec"])
    harness.hear()
    key = JobKey("ml", "MPIJob", "mnist")

    async def reconcile(times: int) -> None:
        for _ in range(times):
            harness.world.now += timedelta(seconds=1)
            await harness.reconciler.reconcile(key, harness.world.now)
            harness.hear()

    await reconcile(3)
    precede(harness.world, "update_dependent", touch(harness.world, kind, name))
    harness.world.edit("MPIJob", "mnist", lambda spec: spec["mpiReplicaSpecs"]["Worker"].update(replicas=2))
    harness.hear()
    await reconcile(3 * CONTESTED)
    found = harness.world.get(kind, name)
    assert "mnist-worker-1" in str(found)


def patch_spec(harness: Harness) -> None:
    """Change a field of the spec that the operator reads."""
    harness.world.edit(
        "TFJob", "mnist", lambda spec: spec["runPolicy"].update(backoffLimit=harness.world.server.store.version)
    )


@pytest.mark.parametrize("what", ["an annotation", "the spec"])
async def test_a_job_that_is_patched_all_the_time_is_suspended_and_its_pods_deleted(what):
    harness = await a_running_job(Worker=2)
    harness.world.fail("delete_pod", Unavailable("no answer"), 2)  # they are deleted by another reconcile
    change = touch(harness.world, "tfjobs", "mnist") if what == "an annotation" else lambda: patch_spec(harness)
    harness.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))
    harness.hear()
    for _ in range(6 * CONTESTED):
        change()  # its event is late
        await harness.reconcile(seconds=1, deaf=True)
        harness.hear()
    assert harness.states() == ["Created", "Suspended"]
    assert [pod.deleting for pod in harness.world.pods.values()] == [True, True]


async def test_a_status_that_others_write_each_time_is_not_overwritten():
    harness = await a_running_job(Worker=2)

    def write() -> None:
        message = {"message": str(harness.world.server.store.version)}
        harness.world.replace("tfjobs", "mnist", lambda job: job["status"]["conditions"][0].update(message), "status")

    harness.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))
    harness.hear()
    precede(harness.world, "store_status", write)
    await harness.reconcile(3 * CONTESTED, seconds=1)
    assert (harness.states(), len(harness.world.pods)) == (["Created", "Running"], 2)


async def test_a_finished_job_that_is_patched_all_the_time_is_deleted_after_its_ttl():
    harness = await a_running_job({"ttlSecondsAfterFinished": 60}, Worker=1)
    (name,) = harness.world.pods
    harness.world.set_pod(name, "Succeeded")
    harness.hear()
    await harness.reconcile(3, seconds=1)
    precede(harness.world, "delete_job", lambda: harness.world.touch("TFJob", "mnist"))
    harness.world.now += timedelta(seconds=60)
    await harness.reconcile(3 * CONTESTED, seconds=1)
    assert harness.job() is None

"""Objects that are created and deleted in turn are made with back-off and a message; those of a resumed job at once."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from functools import partial

import pytest

from support.virtual_time import in_virtual_time
from trainshed.api.objects import KUBERNETES_GROUPS, Resource
from trainshed.controller.undone_writes import KEPT, MOST, OFTEN, UndoneWrites

from .scene import CASES, LABEL, Scene, Webhooks

HIGH = {"schedulingPolicy": {"priorityClass": "high"}}


def alters_creations(scene: Scene, resource: Resource, change: Callable[[dict], object]) -> None:
    """Let a webhook change each object of this kind at its creation."""
    create = scene.world.create_dependent

    async def admit(found: Resource, namespace: str, body: dict) -> object:
        body = copy.deepcopy(body)
        if found is resource:
            change(body)
        return await create(found, namespace, body)

    scene.world.create_dependent = admit


async def messages(scene: Scene, task: asyncio.Task) -> str:
    """Return the messages of the Events, and end the operator."""
    said: list[str] = []

    async def record(_namespace: str, body: dict) -> None:
        said.append(body["message"])

    scene.world.create_event = record
    await scene.recorder.flush()
    task.cancel()
    return " ".join(said)


def test_a_pod_group_that_a_webhook_makes_outdated_is_created_and_deleted_with_back_off():
    async def story() -> None:
        scene = Scene("TFJob", {"Worker": 2}, {"runPolicy": HIGH}, gang_scheduler="kubernetes")
        for found in scene.view.dependents.values():
            found.store.replaced([], "0")
        alters_creations(scene, KUBERNETES_GROUPS, lambda body: body["spec"].update(priorityClassName="low"))
        scene.world.set_quota(0)
        task = asyncio.create_task(scene.worker.run())
        assert 3 <= await scene.last(100, "create podgroups") <= 14
        assert await scene.last(100, "delete podgroups") <= 14
        assert "created PodGroup mnist, and had to delete it again each time" in await messages(scene, task)

    in_virtual_time(story())


@pytest.mark.parametrize(("resource", "kind", "roles", "spec"), CASES, ids=[case[0].plural for case in CASES])
def test_a_dependent_that_is_changed_between_its_creation_and_deletion_is_created_with_back_off(
    resource, kind, roles, spec
):
    async def story() -> None:
        scene = Webhooks(resource, kind, roles, spec)
        alters_creations(scene, resource, lambda body: body["metadata"]["labels"].pop(LABEL))
        task = asyncio.create_task(scene.worker.run())

        def delete_patched() -> None:
            for name in scene.world.names(resource.plural):
                if LABEL in scene.world.get(resource, name)["metadata"]["labels"]:
                    scene.world.delete(resource, name)

        scene.react = delete_patched
        assert 3 <= await scene.last(100, f"create {resource.plural}") <= 14
        said = f"created {resource.kind} mnist"
        assert said in await messages(scene, task)

    in_virtual_time(story())


def suspend(spec: dict, *, on: bool) -> None:
    spec["runPolicy"]["suspend"] = not on


def scale(spec: dict, *, on: bool) -> None:
    spec["tfReplicaSpecs"]["Worker"]["replicas"] = 1 + on


@pytest.mark.parametrize(
    ("change", "kept", "pause"), [(suspend, ("podgroups", "mnist"), 0), (scale, ("services", "mnist-worker-1"), 10)]
)
def test_a_job_that_changes_in_turn_gets_its_objects_at_once_unless_that_has_no_end(change, kept, pause):
    plural, name = kept

    async def story() -> None:
        scene = Scene("TFJob", {"Worker": 2}, {"runPolicy": HIGH}, gang_scheduler="volcano" * (change is suspend))
        task = asyncio.create_task(scene.worker.run())

        async def turn(on: bool) -> bool:
            """Change the job; return whether it has the object soon."""
            scene.world.edit("TFJob", "mnist", partial(change, on=on))
            await scene.last(0.5, "")
            for pod in scene.world.pods.values():
                if pod.deleting:
                    scene.world.confirm_deletion(pod.name)
            await scene.last(0.5, "")
            await asyncio.sleep(0 if on else pause)
            return name in scene.world.names(plural)

        async def late(times: int) -> int:
            """Change the job so often and back; return how often it had not what it needs soon."""
            return sum([await turn(False) or not await turn(True) for _ in range(times)])

        await scene.last(1, "")
        assert await late(OFTEN - 1) == 0
        assert await late(30) > 10
        await scene.last(40, "")
        assert name in scene.world.names(plural)
        task.cancel()

    in_virtual_time(story())


def test_a_namespace_with_many_writes_does_not_push_out_those_of_others():
    writes, own = UndoneWrites(), ("quiet", "own")
    for moment in (1.0, 2.0, 3.0):
        writes.wrote(own, None, moment)
    for number in range(MOST + 10):
        writes.wrote(("loud", number), None, 4.0)
    assert (writes.number, writes.times(own, None, 5.0)) == (MOST, 3)
    assert not writes.times(("loud", 5), None, 5.0)
    assert writes.times(("loud", MOST), None, 5.0) == 1
    writes.wrote(("loud", 0), None, 5.0 + KEPT)
    assert writes.number == 2, "those that are over are forgotten first"
    writes.clear()
    assert (writes.number, writes.wait(own, None, 5.0)) == (0, 0.0)

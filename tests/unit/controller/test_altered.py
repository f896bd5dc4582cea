"""Writes that webhooks change and other clients undo are repeated with back-off and a message, not without end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count, pairwise

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.api.framework import Framework
from trainshed.api.objects import (
    JOB_TRACKING_FINALIZER,
    RESTART_ATTEMPT_ANNOTATION,
    Pod,
)
from trainshed.client import Conflict
from trainshed.memory.strategies import SERVER_FIELDS

from .scene import CASES, LABEL, Scene, Webhooks


@pytest.mark.parametrize(("resource", "kind", "roles", "spec"), CASES, ids=[case[0].plural for case in CASES])
def test_a_dependent_whose_update_is_reverted_is_tried_again_with_back_off(resource, kind, roles, spec):
    patch = f"patch {resource.plural}"

    async def story() -> None:
        scene = Webhooks(resource, kind, roles, spec)
        task = asyncio.create_task(scene.worker.run())
        await scene.last(5, patch)
        scene.revert()
        assert await scene.last(5, patch) == 1, "one update is enough where no webhook reverts it"
        assert scene.blocked() is None

        scene.reverts = True
        scene.revert()
        assert 2 <= await scene.last(100, patch) <= 12
        blocked = scene.blocked()
        assert blocked["reason"] == "AlteredOnUpdate"
        assert f"{resource.kind} mnist" in blocked["message"]

        pods = len(scene.world.made)
        scene.world.confirm_deletion(scene.world.made[-1])
        await scene.last(25, patch)
        assert len(scene.world.made) == pods + 1, "other actions do not wait for it"

        scene.reverts = False
        assert await scene.last(25, patch) == 1
        assert scene.blocked() is None
        task.cancel()

    in_virtual_time(story())


@pytest.mark.parametrize(("resource", "kind", "roles", "spec"), CASES, ids=[case[0].plural for case in CASES])
def test_a_dependent_that_another_client_changes_back_is_updated_with_back_off(resource, kind, roles, spec):
    async def story() -> None:
        scene = Webhooks(resource, kind, roles, spec)
        task = asyncio.create_task(scene.worker.run())
        await scene.last(5, "")

        def change_back() -> None:
            (name,) = scene.world.names(resource.plural)
            if LABEL in scene.world.get(resource, name)["metadata"]["labels"]:
                scene.revert()

        scene.react = change_back
        assert 3 <= await scene.last(100, f"patch {resource.plural}") <= 14
        assert scene.blocked()["reason"] == "UndoneByOthers"
        scene.react = lambda: None
        await scene.last(25, "")
        assert scene.blocked() is None
        task.cancel()

    in_virtual_time(story())


def deletes_services(scene: Scene) -> None:
    for name in scene.world.names("services"):
        scene.world.delete("services", name)


def makes_services(scene: Scene) -> None:
    """Make the Services again that the operator deletes, with the job as their owner."""
    if not scene.world.names("services"):
        scene.world.create("services", scene.kept)


def restores_the_finalizer(scene: Scene) -> None:
    for pod in scene.world.pods.values():
        if not pod.has_finalizer:
            scene.world.patch("pods", pod.name, {"finalizers": [JOB_TRACKING_FINALIZER]})


def overwrites_the_status(scene: Scene) -> None:
    if scene.stored()["status"].get("conditions"):
        scene.set_status({"startTime": "2026-01-01T00:00:00Z"})


def resets_the_attempt(scene: Scene) -> None:
    for pod in scene.world.pods.values():
        if pod.attempt and not pod.deleting:
            scene.world.patch("pods", pod.name, {"annotations": {RESTART_ATTEMPT_ANNOTATION: "0"}})


async def run(scene: Scene) -> None:
    """Let the pods of the job run."""
    await scene.last(3, "")
    for name in scene.world.pods:
        scene.world.set_pod(name, "Running")
    await scene.last(3, "")


async def succeed(scene: Scene) -> None:
    await run(scene)
    scene.world.set_pod("mnist-worker-0", "Succeeded", code=0)


async def suspend(scene: Scene) -> None:
    await run(scene)
    (name,) = scene.world.names("services")
    found = scene.world.get("services", name)
    kept = {key: value for key, value in found["metadata"].items() if key not in SERVER_FIELDS}
    scene.kept = {**found, "metadata": {key: value for key, value in kept.items() if key != "resourceVersion"}}
    scene.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))


async def restart(scene: Scene) -> None:
    await run(scene)
    scene.world.edit("TFJob", "mnist", lambda spec: spec["tfReplicaSpecs"]["Worker"].update(restartPolicy="ExitCode"))
    scene.world.set_pod("mnist-worker-0", "Failed", code=137)


Step = Callable[[Scene], Awaitable[None]]
#: What another client does, after which story of the job, the write that it undoes, and what users read of it.
UNDOES: list[tuple[Callable[[Scene], None], Step, str, str]] = [
    (deletes_services, run, "create service", "created Service mnist-worker-0, and another client undoes that"),
    (makes_services, suspend, "delete service", "deleted Service mnist-worker-0, and another client undoes that"),
    (restores_the_finalizer, succeed, "release pod", "finalizer of pod mnist-worker-0, and another client undoes that"),
    (overwrites_the_status, run, "status", "another client, or an admission webhook, overwrites it"),
    (resets_the_attempt, restart, "create pod", "others have deleted the pod"),
]


@pytest.mark.parametrize(("undo", "begin", "write", "words"), UNDOES, ids=[case[0].__name__ for case in UNDOES])
def test_a_write_that_another_client_undoes_each_time_is_repeated_with_back_off(undo, begin, write, words, caplog):
    caplog.set_level(logging.INFO, "trainshed")

    async def story() -> None:
        scene = Scene("TFJob", {"Worker": 1}, {"runPolicy": {"backoffLimit": 9}}, track_results=True)
        task = asyncio.create_task(scene.worker.run())
        await begin(scene)
        scene.react = partial(undo, scene)
        assert 3 <= await scene.last(100, write) <= 14, scene.world.writes[-20:]
        said = (*(record.getMessage() for record in caplog.records), json.dumps(scene.stored()))
        assert any(words in text for text in said)
        task.cancel()

    in_virtual_time(story())


def keeps_finalizers(scene: Scene) -> None:
    """Let a webhook restore each finalizer, and stamp the pod."""
    release, stamps = scene.world.release_pod, count()

    async def admit(namespace: str, name: str, patch: dict) -> Pod | None:
        await release(namespace, name, patch)
        if name in scene.world.pods:
            scene.world.patch(
                "pods", name, {"finalizers": [JOB_TRACKING_FINALIZER], "labels": {"stamp": str(next(stamps))}}
            )
        return scene.world.pods.get(name)

    scene.world.release_pod = admit


def changes_statuses(content: dict) -> Callable[[Scene], None]:
    """Let a webhook put this in place of each status, and a stamp, which the CRD keeps."""

    def install(scene: Scene) -> None:
        store, stamps = scene.world.store_status, count()

        async def admit(framework: Framework, namespace: str, name: str, patch: dict) -> dict:
            await store(framework, namespace, name, patch)
            scene.set_status(content | {"stamp": next(stamps)})
            return await scene.world.read_job(framework, namespace, name)

        scene.world.store_status = admit

    return install


@pytest.mark.parametrize(
    ("install", "begin", "write", "words"),
    [
        (keeps_finalizers, succeed, "release pod", "finalizer of pod mnist-worker-0 was removed, but an admission"),
        (changes_statuses({}), restart, "status", "an admission webhook has changed"),
        (changes_statuses({"attempts": {"Worker": 5}}), restart, "status", "an admission webhook has changed"),
    ],
    ids=["finalizers", "no status", "another status"],
)
def test_a_write_that_a_webhook_changes_each_time_is_repeated_with_back_off(install, begin, write, words, caplog):
    caplog.set_level(logging.INFO, "trainshed")

    async def story() -> None:
        scene = Scene("TFJob", {"Worker": 1}, track_results=True)
        task = asyncio.create_task(scene.worker.run())
        await run(scene)
        install(scene)
        await begin(scene)
        assert 3 <= await scene.last(100, write) <= 14, scene.world.writes[-20:]
        assert any(words in record.getMessage() for record in caplog.records)
        made = len(scene.world.made)
        await scene.last(20, write)
        assert len(scene.world.made) == made, "nothing is done that would be done again"
        task.cancel()

    in_virtual_time(story())


async def new(_scene: Scene) -> None:
    """Begin with the job itself."""


async def clean(scene: Scene) -> None:
    await run(scene)
    scene.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(cleanPodPolicy="All"))
    scene.world.set_pod("mnist-worker-0", "Succeeded", code=0)


async def revert(scene: Webhooks) -> None:
    await scene.last(5, "")
    scene.revert()


#: The call that always has a conflict, after which story of the job, and the object that users read of.
CONFLICTS: list[tuple[str, Step, str]] = [
    ("create_pod", new, "pod mnist-worker-0"),
    ("create_service", new, "Service mnist-worker-0"),
    ("release_pod", succeed, "pod mnist-worker-0"),
    ("delete_pod", clean, "pod mnist-worker-1"),
    ("create_dependent", new, "ServiceAccount mnist-launcher"),
    ("update_dependent", revert, "ConfigMap mnist-config"),
]


@pytest.mark.parametrize(("call", "begin", "what"), CONFLICTS, ids=[case[0] for case in CONFLICTS])
def test_a_write_that_has_a_conflict_each_time_is_repeated_with_back_off_and_a_message(call, begin, what, caplog):
    caplog.set_level(logging.INFO, "trainshed")
    events: list[str] = []

    async def story() -> None:
        scene = Scene("TFJob", {"Worker": 2}, {"runPolicy": {}}, track_results=True)
        if call.endswith("dependent"):
            scene = Webhooks(*CASES[0])
        do, times = getattr(scene.world, call), dict[float, None]()

        async def refuse(*_: object) -> None:
            times[clock()] = None
            raise Conflict("the object has been modified")

        async def record(_namespace: str, body: dict) -> None:
            events.append(body["message"])

        scene.world.create_event = record
        task = asyncio.create_task(scene.worker.run())
        await begin(scene)
        setattr(scene.world, call, refuse)
        await scene.last(100, "")
        assert 8 <= len(times) <= 16
        waits = [after - before for before, after in pairwise(times)]
        assert waits == sorted(waits)
        await scene.recorder.flush()
        assert any(f"{what} cannot be written, as there is a conflict each time" in event for event in events)
        setattr(scene.world, call, do)
        await scene.last(25, "")
        assert scene.blocked() is None
        task.cancel()

    in_virtual_time(story())

"""A dependent of which a part is kept only as a digest is written once, whatever the server makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from support.harness import KEY, Harness, a_spec
from support.jobs import job
from support.world import KINDS
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import AUTOSCALERS, VOLCANO_GROUPS, Resource

PADDING = {"example.com/padding": "x" * 20_000}
#: Annotations of a job, and so of its PodGroup: each set is too large to be kept.
ANNOTATIONS = {
    "some": {f"n-{number:03}": "v" * 60 for number in range(300)},
    "many": {f"n-{number:03}": "v" * 60 for number in range(2500)},
    "one with many colons": {"n-000": json.dumps([{"name": "A", "value": str(number)} for number in range(2100)])},
}
DEVICES = {f"example.com/{'d' * 20}-{number:03}": "2" for number in range(200)}


def add(harness: Harness) -> None:
    """Let another client add entries."""
    harness.world.patch(VOLCANO_GROUPS, "mnist", {"annotations": {"other.io/seen": "yes"}, "labels": {"a": "b"}})


def remove(harness: Harness) -> None:
    harness.world.patch("tfjobs", "mnist", {"annotations": {"n-000": None}})


def overwrite(harness: Harness) -> None:
    harness.world.patch(VOLCANO_GROUPS, "mnist", {"annotations": {"n-000": "other"}})


async def patches(harness: Harness, resource: Resource) -> int:
    """Return how often the resource is patched in many reconciles, none of which fails."""
    mark = len(harness.world.writes)
    for _ in range(5):
        harness.hear()
        harness.world.now += timedelta(seconds=5)
        key = KEY if resource is VOLCANO_GROUPS else JobKey("ml", "PyTorchJob", "mnist")
        assert (await harness.reconciler.reconcile(key, harness.world.now)).error is None
    return sum(write.startswith(f"patch {resource.plural}") for write in harness.since(mark))


async def grouped(annotations: dict, limits: dict | None = None) -> Harness:
    """Return a job that has a PodGroup."""
    harness, spec = Harness(job_defaults=JobDefaults(gang_scheduler="volcano")), a_spec(Worker=2)
    spec["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits or {}}
    harness.world.submit("TFJob", "mnist", spec, annotations)
    assert await patches(harness, VOLCANO_GROUPS) == 0
    return harness


@pytest.mark.parametrize("what", ANNOTATIONS)
@pytest.mark.parametrize(("change", "times"), [(add, 0), (remove, 1), (overwrite, 1)])
async def test_annotations_that_are_too_large_to_be_kept_are_compared_by_key(what, change, times):
    harness = await grouped(ANNOTATIONS[what])
    change(harness)
    is_unseen = change is overwrite and what == "many"
    assert await patches(harness, VOLCANO_GROUPS) == (0 if is_unseen else times)


async def test_names_that_are_no_longer_wanted_are_removed_from_a_large_part():
    harness = await grouped(PADDING, DEVICES)
    first = next(iter(DEVICES))

    def change(spec: dict) -> None:
        del spec["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"][first]

    harness.world.edit("TFJob", "mnist", change)
    assert await patches(harness, VOLCANO_GROUPS) == 1
    assert harness.world.get(VOLCANO_GROUPS)["spec"]["minResources"].keys() == DEVICES.keys() - {first}


def rewrite(harness: Harness, change: Callable[[dict], None]) -> None:
    """Let the server change each autoscaler that is written, as defaults do."""
    create, update = harness.world.create_dependent, harness.world.update_dependent

    async def created(resource: Resource, namespace: str, body: dict) -> object:
        await create(resource, namespace, body)
        return rewritten(resource)

    async def updated(resource: Resource, namespace: str, name: str, patch: dict) -> object:
        await update(resource, namespace, name, patch)
        return rewritten(resource)

    def rewritten(resource: Resource) -> object:
        harness.world.replace(resource, "mnist", change)
        return harness.world.dependent(resource, "mnist")

    harness.world.create_dependent, harness.world.update_dependent = created, updated


@pytest.mark.slow
@pytest.mark.parametrize("labels", [90, 9000], ids=["few values", "many values"])
async def test_a_large_part_that_the_server_writes_otherwise_is_written_once(labels):
    selector = {"matchLabels": {f"l-{number:05}": "v" * 40 for number in range(labels)}}
    metric = {"name": "m", "selector": selector}
    external = {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1000m"}}
    elastic = {"minReplicas": 1, "maxReplicas": 3, "metrics": [{"type": "External", "external": external}] * 5}
    harness = Harness()
    rewrite(harness, lambda found: found["spec"]["metrics"][0].update(added="by default"))
    spec = job("PyTorchJob", "mnist", Worker=1)["spec"] | {"elasticPolicy": elastic}
    harness.world.submit("PyTorchJob", "mnist", spec)
    assert await patches(harness, AUTOSCALERS) == 0

    harness.view._answers.clear()
    assert await patches(harness, AUTOSCALERS) == 1, "another process does not know what was answered"

    def spoil(found: dict) -> None:
        found["spec"]["metrics"] = found["spec"]["metrics"][1:]

    harness.world.replace(AUTOSCALERS, "mnist", spoil)
    assert await patches(harness, AUTOSCALERS) == 1
    assert len(harness.world.get(AUTOSCALERS)["spec"]["metrics"]) == 5
    harness.world.delete(KINDS["PyTorchJob"].plural)
    harness.hear()
    assert harness.view._answers == {}

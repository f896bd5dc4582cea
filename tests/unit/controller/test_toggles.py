"""A job that is changed back and forth costs requests for its pods and Services now and then, not at each change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from support.virtual_time import in_virtual_time

from .scene import Scene

SIZE, GROUPS = 10, "tfReplicaSpecs"
#: The number of changes, and the seconds between two of them.
TIMES, QUICKLY = 20, 0.5


def suspend(job: dict, *, away: bool) -> None:
    job["spec"]["runPolicy"]["suspend"] = away


def scale(job: dict, *, away: bool) -> None:
    job["spec"][GROUPS]["Worker"]["replicas"] = 1 if away else SIZE


def rename_role(job: dict, *, away: bool) -> None:
    groups = job["spec"][GROUPS]
    groups["PS" if away else "Worker"] = groups.pop("Worker" if away else "PS")


def suspend_with_another_form_of_services(job: dict, *, away: bool) -> None:
    job["metadata"]["annotations"]["trainshed.dev/services"] = "Job" if away else "Replica"
    suspend(job, away=away)


def change_form_of_services_and_more(job: dict, *, away: bool) -> None:
    job["metadata"]["annotations"]["trainshed.dev/services"] = "Job" if away else "Replica"
    job["spec"][GROUPS]["Worker"]["template"]["spec"]["containers"][0]["image"] = "a" if away else "b"
    job["spec"]["runPolicy"]["cleanPodPolicy"] = "All" if away else "None"


async def toggle(change: Callable[..., None], times: int, apart: float, *, slow_pods: bool) -> tuple[int, int]:
    """Toggle a running job; return how many requests its pods and Services cost, and how often it then had all pods.

    If they are not slow, pods are gone as soon as they are deleted.
    """
    scene = Scene("TFJob", {"Worker": SIZE}, {"runPolicy": {}})
    task = asyncio.create_task(scene.worker.run())
    await scene.last(3, "")

    def end_pods() -> None:
        for name in [name for name, pod in scene.world.pods.items() if pod.deleting and not slow_pods]:
            scene.world.delete("pods", name, 0)

    for name in scene.world.pods:
        scene.world.set_pod(name, "Running")
    scene.react, mark, complete = end_pods, len(scene.world.writes), 0
    for number in range(times):
        scene.world.replace("tfjobs", "mnist", partial(change, away=number % 2 == 0))
        await scene.last(apart, "")
        complete += number % 2 and len(scene.world.pods) == SIZE
    writes = [write.split()[:2] for write in scene.since(mark)]
    await scene.last(12, "")
    assert slow_pods or len(scene.world.pods) == SIZE, "in the end the job has what its spec says"
    task.cancel()
    return sum(verb in ("create", "delete") and what in ("pod", "service") for verb, what in writes), complete


@pytest.mark.parametrize(
    ("change", "apart", "slow_pods"),
    [
        (suspend, QUICKLY, False),
        (scale, QUICKLY, False),
        (scale, QUICKLY, True),
        (scale, 1.5, False),
        (rename_role, QUICKLY, False),
        (suspend_with_another_form_of_services, QUICKLY, True),
        (change_form_of_services_and_more, QUICKLY, False),
    ],
)
def test_changes_within_seconds_cost_all_pods_and_services_a_few_times_and_then_each_ten_seconds(
    change, apart, slow_pods
):
    cost, _ = in_virtual_time(toggle(change, TIMES, apart, slow_pods=slow_pods))
    assert cost <= (3 + TIMES * apart / 10) * 4 * SIZE


@pytest.mark.parametrize("change", [suspend, scale])
def test_changes_that_are_far_apart_are_carried_out_each_time(change):
    _, complete = in_virtual_time(toggle(change, 6, 15, slow_pods=False))
    assert complete == 3

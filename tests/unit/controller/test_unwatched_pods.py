"""Pods that have left the watch, because their job label was removed, are deleted and counted until they are gone."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod
from support.harness import Harness, a_spec
from support.replace import replace
from trainshed.client import Unavailable
from trainshed.controller.left_pods import UnwatchedPods

QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
LABEL = {"training.kubeflow.org/job-name": "mnist"}
JOB = a_job(worker=2)
OWNER = ("ml", "job-uid")


async def a_running_job(*, queued: bool = True, scope: str = "Replica", **policy: object) -> Harness:
    harness = Harness()
    spec = a_spec(Chief=1, Worker=2, policy={"activeDeadlineSeconds": 60, **policy})
    harness.world.submit("TFJob", "mnist", spec, {"trainshed.dev/restart-scope": scope})
    harness.world.patch("tfjobs", "mnist", {"labels": QUEUED if queued else {}})
    harness.hear()
    await harness.run_all()
    return harness


def suspend(harness: Harness) -> None:
    harness.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))
    harness.hear()


def hide(harness: Harness) -> None:
    for name in ("mnist-worker-0", "mnist-worker-1"):
        harness.world.hide(name)
    harness.hear()


def hide_after_a_flood(harness: Harness) -> None:
    """Let pods of the job come and go whose names it never requests, then hide its own."""
    owner = harness.job()["metadata"]["uid"]
    for number in range(10_000):
        pod = replace(a_pod(f"x-{number}", "Pending"), owner=owner)
        harness.view.pods.store.changed(pod)
        harness.view.pods.store.forgotten(pod.uid)
    hide(harness)


def succeed(harness: Harness) -> None:
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()


def delegate(harness: Harness) -> None:
    manager = "kueue.x-k8s.io/multikueue"
    harness.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(managedBy=manager))
    harness.hear()


def delete(harness: Harness) -> None:
    harness.world.patch("tfjobs", "mnist", {"finalizers": ["example.com/a"]})
    harness.world.delete("tfjobs")
    harness.hear()


def wait(harness: Harness) -> None:
    harness.world.now = harness.world.now.replace(minute=harness.world.now.minute + 2)


def restart(harness: Harness) -> None:
    """Let another process go on, which has seen none of this."""
    again = Harness(world=harness.world)
    again.hear()
    vars(harness).update({name: vars(again)[name] for name in ("view", "reconciler", "recorder", "_lines")})


def end(harness: Harness, name: str) -> None:
    if name in harness.world.pods:
        harness.world.confirm_deletion(name)
    harness.hear()


def active(harness: Harness) -> int:
    return sum(count.get("active", 0) for count in harness.job()["status"]["replicaStatuses"].values())


def remaining(harness: Harness) -> dict[str, bool]:
    return {name: pod.deleting for name, pod in harness.world.pods.items() if "worker" in name}


@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize(
    ("steps", "policy"),
    [
        ((hide, suspend), {}),
        ((suspend, hide), {}),
        ((hide_after_a_flood, suspend), {}),
        ((hide, restart, suspend), {}),
        ((suspend, hide, restart), {}),
        ((hide, wait), {}),
        ((hide, wait), {"queued": False}),
        ((hide, restart, wait), {}),
        ((wait, hide), {"queued": False}),
        ((hide, succeed), {"cleanPodPolicy": "All"}),
        ((succeed, hide), {"cleanPodPolicy": "Running"}),
    ],
)
async def test_pods_without_their_label_are_stopped_and_counted_until_they_are_gone(steps, policy, scope):
    harness = await a_running_job(scope=scope, **policy)
    for step in steps:
        step(harness)
        await harness.reconcile(3, seconds=1)
    end(harness, "mnist-chief-0")
    await harness.reconcile(3, seconds=30)
    assert remaining(harness) == {"mnist-worker-0": True, "mnist-worker-1": True}
    assert active(harness) == 2
    if "queued" not in policy:
        assert not {"Succeeded", "Failed"} & set(harness.states()), "a queue would give their quota away"
    for left in (1, 0):
        end(harness, f"mnist-worker-{left}")
        outcome = await harness.reconcile(3, seconds=30)
        assert active(harness) == left
    assert outcome.error is None
    harness.world.fail("seek_pod", Unavailable("asked again"))
    assert (await harness.reconcile(3, seconds=1)).error is None


@pytest.mark.parametrize("scope", ["Job", "Replica"])
@pytest.mark.parametrize("step", [suspend, wait, succeed])
async def test_nothing_is_looked_up_for_a_job_whose_pods_have_their_labels(step, scope):
    harness = await a_running_job(scope=scope, cleanPodPolicy="All")
    harness.world.fail("seek_pod", Unavailable("asked"))
    step(harness)
    for name in ("mnist-worker-1", "mnist-chief-0", "mnist-worker-0"):
        assert (await harness.reconcile(3, seconds=1)).error is None
        end(harness, name)
    assert (await harness.reconcile(3, seconds=1)).error is None
    assert active(harness) == 0


async def test_nothing_is_looked_up_for_a_job_that_leaves_its_pods_running():
    harness = await a_running_job(queued=False)
    for step in (succeed, hide):
        step(harness)
        assert (await harness.reconcile(3, seconds=1)).error is None
    assert remaining(harness) == {"mnist-worker-0": False, "mnist-worker-1": False}
    harness.world.fail("seek_pod", Unavailable("asked"))
    assert (await harness.reconcile(3, seconds=1)).error is None


async def test_a_pod_that_gets_its_label_back_is_one_of_the_others():
    harness = await a_running_job()
    hide(harness)
    assert {pod.name for pod in harness.snapshot().unwatched} == {"mnist-worker-0", "mnist-worker-1"}
    harness.world.patch("pods", "mnist-worker-0", {"labels": LABEL})
    harness.hear()
    assert [pod.name for pod in harness.snapshot().unwatched] == ["mnist-worker-1"]
    before = harness.snapshot()
    harness.world.delete("tfjobs")
    harness.hear()
    assert harness.view.left_pods.unwatched(before) == ()


def test_pods_that_may_be_hidden_are_known_until_they_are_gone_or_watched():
    pods = UnwatchedPods()
    for pod in (a_pod("worker-0"), a_pod("worker-1", deleting=True, grace=30), a_pod("worker-0", uid="another")):
        pods.left(JOB, pod)
    assert [pod.name for pod in pods.of(OWNER)] == ["mnist-worker-1", "mnist-worker-0"]
    pods.gone("worker-0-uid")
    pods.left(JOB, a_pod("worker-1", deleting=True, grace=0))
    assert [pod.uid for pod in pods.of(OWNER)] == ["another"], "the API server has removed the other one"
    pods.gone("another")
    pods.gone("unknown")
    assert pods.of(OWNER) == ()
    pods.left(JOB, a_pod("worker-0"))
    pods.forget(OWNER)
    pods.gone("worker-0-uid")
    assert pods.of(OWNER) == ()


@pytest.mark.parametrize(
    "steps", [(succeed, hide), (hide, succeed), (hide, delegate), (delegate, hide), (hide, delete)]
)
async def test_nothing_is_remembered_of_pods_that_the_operator_leaves_alone(steps):
    harness = await a_running_job(queued=False)
    for step in steps:
        step(harness)
        await harness.reconcile(3, seconds=1)
    assert harness.snapshot().unwatched == ()


async def test_hidden_pods_of_a_running_job_are_counted_once():
    harness = await a_running_job(scope="Job")
    hide(harness)
    await harness.run_all()
    assert (active(harness), len(harness.world.pods)) == (3, 3)

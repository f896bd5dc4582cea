"""Two operators with different views of one cluster: none acts on a stale view or counts twice."""

from __future__ import annotations

import pytest

from support.harness import Harness, a_spec
from trainshed.client import Conflict, Unavailable

SMALL = a_spec(Chief=1, Worker=2)
PODS = ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]


class Replicas:
    """Two operators on one cluster: the first receives all events, the second lacks those of some kinds."""

    def __init__(self, spec: dict) -> None:
        self.first = Harness()
        self.second = Harness(world=self.first.world)
        self.first.world.submit("TFJob", "mnist", spec)
        self.hear()

    def hear(self, *deaf_to: str) -> None:
        """Deliver the events to both, except for the resources that the second does not receive."""
        self.first.hear()
        self.second.hear(*deaf_to)

    async def act(self, times: int, *deaf_to: str) -> None:
        """Let the first reconcile this many times, a second apart."""
        for _ in range(times):
            await self.first.reconcile(seconds=1, deaf=True)
            self.hear(*deaf_to)

    async def run_all(self) -> None:
        """Let the first create the pods, and run all of them."""
        await self.act(3)
        for name in self.first.world.pods:
            self.first.world.set_pod(name, "Running")
        self.hear()
        await self.act(4)


@pytest.mark.fault("C5")
async def test_a_new_leader_with_stale_pods_counts_no_failure_twice():
    both = Replicas(a_spec(Chief=1, PS=1, Worker=2, restart="ExitCode", policy={"backoffLimit": 1}))
    world = both.first.world
    await both.run_all()
    world.set_pod("mnist-worker-0", "Failed", code=137)
    both.hear()
    await both.act(8, "pods")
    assert both.first.job()["status"]["restarts"] == 1
    assert world.made.count("mnist-worker-0") == 2
    assert both.second.snapshot().pods != both.first.snapshot().pods
    mark = len(world.writes)
    await both.second.reconcile(3, seconds=1, deaf=True)
    assert both.first.job()["status"]["restarts"] == 1
    assert "Failed" not in both.first.states()
    assert [write for write in world.writes[mark:] if "pod" in write] == []
    while both.second.hear_one():  # the outdated events arrive at last
        await both.second.reconcile(deaf=True)
    assert both.first.job()["status"]["restarts"] == 1
    assert [write for write in world.writes[mark:] if "pod" in write] == []


@pytest.mark.fault("C5")
async def test_a_new_leader_with_a_stale_job_deletes_nothing():
    both = Replicas(a_spec(Worker=2, policy={"suspend": True}))
    world = both.first.world
    await both.act(2)
    assert "Suspended" in both.first.states()
    world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=False))
    both.hear("tfjobs")
    await both.act(5, "tfjobs")
    assert len(world.pods) == 2
    mark, job = len(world.writes), both.first.job()
    outcome = await both.second.reconcile(deaf=True)
    assert world.writes[mark:] == ["status mnist"], "the job is suspended in this replica's cache"
    assert isinstance(outcome.error, Conflict)
    assert both.first.job() == job
    assert len(world.pods) == 2


@pytest.mark.fault("B18")
async def test_pods_missing_in_a_list_are_read():
    harness = Harness(SMALL)
    await harness.run_all()
    harness.view.pods.store.replaced([], str(harness.world.server.store.version))
    assert harness.snapshot().pods == ()
    mark = len(harness.world.writes)
    await harness.reconcile(3, seconds=1)
    assert harness.since(mark) == []
    assert [pod.name for pod in harness.snapshot().pods] == PODS


async def test_a_list_of_pods_older_than_the_watch_is_ignored():
    harness = Harness(SMALL)
    await harness.run_all()
    harness.view.pods.store.replaced([], "999")
    outcome = await harness.reconcile()
    assert isinstance(outcome.error, Unavailable)
    assert harness.snapshot().pods == ()


async def test_a_job_response_older_than_the_cache_causes_back_off():
    harness = Harness(SMALL)
    await harness.run_all()
    old = harness.job()
    harness.world.edit("TFJob", "mnist", lambda spec: spec["tfReplicaSpecs"]["Worker"].update(replicas=3))
    harness.hear()

    async def read_job(*_: object) -> dict:
        return old

    harness.world.read_job = read_job
    outcome = await harness.reconcile()
    assert isinstance(outcome.error, Unavailable)
    assert outcome.requeue_at is None


async def test_failures_under_another_leader_are_not_counted():
    both = Replicas(a_spec(Chief=1, PS=1, Worker=2, restart="Never"))
    await both.run_all()
    await both.second.reconcile(deaf=True)
    both.second.reconciler.step_down()
    both.second.metrics.step_down()
    both.first.world.set_pod("mnist-worker-0", "Failed", code=1)
    both.hear()
    await both.act(6)
    await both.second.reconcile(deaf=True)
    counter = 'failed_pods_total{framework="tensorflow",job_namespace="ml"} '
    counts = [harness.metrics.text().decode().split(counter)[1].split()[0] for harness in (both.first, both.second)]
    assert counts == ["1.0", "0.0"]

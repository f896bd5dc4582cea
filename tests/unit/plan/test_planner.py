"""Facts are computed once in a reconcile, and missing pods are read concurrently."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from support.builders import FRAMEWORKS, a_job, a_pod, pods_of, replace, running, seen
from support.harness import Harness, a_spec
from trainshed.api.framework import Framework
from trainshed.controller.reconciler import MAX_POD_LOOKUPS
from trainshed.plan import plan


def counting(framework: Framework, calls: Counter[str]) -> Framework:
    """Return the framework with counters of its calls for the success policy and the optional roles."""

    def goal(job):
        calls["goal"] += 1
        return framework.hooks.success_policy(job)

    def expendable(job):
        calls["expendable"] += 1
        return framework.hooks.optional_roles(job)

    return replace(framework, hooks=replace(framework.hooks, success_policy=goal, optional_roles=expendable))


@pytest.mark.parametrize("gone", [(), ("mnist-worker-1",)], ids=["all are there", "one is missing"])
@pytest.mark.parametrize("restart", ["Never", "ExitCode", "OnFailure"])
def test_the_facts_are_built_and_the_failure_is_found_once(restart, gone):
    job, calls = a_job(chief=1, worker=3, restart=restart, scope="Job"), Counter()
    pods = [pod for pod in pods_of(job, a_pod("worker-0", "Failed", code=137)) if pod.name not in gone]
    snapshot = seen(job, *pods, status=running(job))
    planned = plan(replace(snapshot, framework=counting(snapshot.framework, calls)))
    assert set(planned.pods_to_verify) == set(gone)
    assert calls["goal"] == 1, "asked once for each time that the facts are made"
    failures = 1 + len(gone)
    assert calls["expendable"] == failures, "asked once for each failure whenever the failures are found"


async def a_group(workers: int) -> Harness:
    """Return a running job whose replicas restart together."""
    harness = Harness()
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=workers), {"trainshed.dev/restart-scope": "Job"})
    harness.hear()
    await harness.run_all()
    return harness


async def test_a_reconcile_builds_the_facts_once():
    harness, calls = await a_group(2), Counter()
    harness.view.frameworks["TFJob"] = counting(FRAMEWORKS["TFJob"], calls)
    harness.world.set_pod("mnist-worker-1", "Running", ready=False)
    harness.hear()
    await harness.reconcile()
    assert calls["goal"] == 1


@pytest.mark.parametrize("missing", [5, MAX_POD_LOOKUPS + 8])
async def test_the_server_is_asked_for_many_pods_at_a_time_but_not_for_all(missing):
    harness = await a_group(missing + 1)
    under_way = most = asked = 0

    async def seek_pod(*_: object) -> None:
        nonlocal under_way, most, asked
        under_way, asked = under_way + 1, asked + 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1

    harness.world.seek_pod = seek_pod
    for number in range(missing):
        name = f"mnist-worker-{number}"
        pod = next(pod for pod in harness.view.pods.store.items.values() if pod.name == name)
        harness.view.pods.store.forgotten(pod.uid)
    await harness.reconcile(deaf=True)
    assert most == asked == min(missing, MAX_POD_LOOKUPS)

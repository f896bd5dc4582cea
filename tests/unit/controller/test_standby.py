"""A replica without the Lease caches all jobs and enqueues none."""

from __future__ import annotations

import asyncio

from support.builders import T0, a_job, a_pod, cached
from trainshed.api.job import JobKey
from trainshed.client.credentials import Credentials
from trainshed.client.http import HttpTransport
from trainshed.config import Config
from trainshed.controller.leader_election import LeaderElector
from trainshed.controller.manager import Operator
from trainshed.controller.reconciler import Result
from trainshed.frameworks import FRAMEWORKS
from trainshed.process import Clock


def churn(operator: Operator) -> None:
    """Deliver events of jobs that are created and deleted."""
    for number in range(1000):
        operator.seen(JobKey("ml", "TFJob", f"gone-{number}"), "1")


async def test_a_standby_enqueues_nothing_and_all_jobs_once_it_leads(monkeypatch):
    reconciled, leads = [], asyncio.Event()

    async def reconcile(key: JobKey, _now: object) -> Result:
        reconciled.append(key.name)
        return Result()

    monkeypatch.setattr(LeaderElector, "is_leader", lambda _self: leads.is_set())
    operator = Operator(
        Config(health="", metrics=""), FRAMEWORKS, HttpTransport(Credentials("http://127.0.0.1:1")), Clock()
    )
    operator._caches.all[""].reconciler.reconcile = reconcile
    await operator.start()
    for informer in operator._controller.informers:
        informer.synced.set()
    await asyncio.wait_for(operator.ready.wait(), 5)
    operator._caches.all[""].cache.jobs["TFJob"].changed(cached(a_job(worker=1)))
    churn(operator)
    assert len(operator._controller.queue) == 0
    lost = a_pod("worker-0")
    cache = operator._caches.all[""].cache
    cache.pods.store.changed(lost)
    cache.pods.store.forgotten(lost.uid)
    leads.set()
    operator._elector.acquired.set()
    await asyncio.sleep(0.2)
    assert reconciled == ["mnist"]
    assert cache.snapshot(a_job().key, T0).lost_pods == ()
    leads.clear()
    operator._elector.acquired.clear()
    churn(operator)
    await asyncio.sleep(1.2)
    churn(operator)
    assert (len(operator._controller.queue), reconciled) == (0, ["mnist"])
    await operator.stop()

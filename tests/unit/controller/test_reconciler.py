"""A reconcile plans, stores the status, writes Events and acts in this order, and starts again after a conflict."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.harness import KEY, Office, Weak, a_spec, group_with_one_hidden
from trainshed.client import Conflict, Unavailable
from trainshed.controller.reconciler import Reconciler, Result
from trainshed.controller.status_debounce import PROGRESS
from trainshed.plan.pods import MAX_CREATED
from trainshed.plan.status_details import MANY

SMALL = a_spec(Chief=1, Worker=2)
PODS = ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]


async def test_pods_are_created_once_without_watch_events():
    office = Office(SMALL)
    await office.reconcile(3, deaf=True)
    assert sorted(office.world.made) == PODS
    assert [pod.name for pod in office.snapshot().pods] == PODS


async def test_the_status_of_a_big_job_is_stored_before_its_pods_and_tells_how_many_there_are():
    office = Office(a_spec(Chief=1, Worker=MAX_CREATED + MANY))
    await office.reconcile(deaf=True)
    assert office.world.writes[0] == "status mnist"
    assert office.states() == ["Created"]
    assert "startTime" in office.job()["status"]
    assert len(office.world.made) == MAX_CREATED
    outcome = await office.reconcile(deaf=True, seconds=1)
    assert len(office.world.made) == 2 * MAX_CREATED, "the first answers are in the cache"
    assert office.world.writes.count("status mnist") == 1
    assert outcome.requeue_at == office.world.now
    outcome = await office.reconcile(seconds=1)
    assert len(office.world.made) == MAX_CREATED + MANY + 1
    assert outcome.requeue_at == office.world.now - timedelta(seconds=2) + PROGRESS


async def test_an_unchanged_job_causes_no_requests():
    office = Office(SMALL)
    await office.run_all()
    mark = len(office.world.writes)
    assert await office.reconcile(5, seconds=60) == Result()
    assert office.since(mark) == []


async def test_a_terminal_condition_is_stored_before_pods_are_deleted():
    office = Office(a_spec(Chief=1, Worker=2, policy={"cleanPodPolicy": "All"}))
    await office.run_all()
    mark = len(office.world.writes)
    office.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    office.hear()
    await office.reconcile(3, seconds=1)
    writes = office.since(mark)
    assert writes[0] == "status mnist"
    assert sum(write.startswith("delete pod") for write in writes) == 3
    assert office.states()[-1] == "Succeeded"


async def test_an_event_is_written_after_its_status_is_stored():
    office = Office(SMALL)
    await office.run_all()
    await office.recorder.flush()
    mark = len(office.world.writes)
    office.world.set_pod("mnist-worker-0", "Failed", code=1)
    office.hear()
    await office.reconcile()
    Weak(office.world, "store_status", Unavailable("no answer"))
    assert (await office.reconcile(seconds=3)).error is not None
    await office.recorder.flush()
    assert office.since(mark) == []
    await office.reconcile(2)
    await office.recorder.flush()
    assert office.since(mark).index("status mnist") < office.since(mark).index("event TFJobFailed")


async def test_after_a_conflict_the_cache_has_the_current_job():
    office = Office(SMALL)
    await office.run_all()
    office.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    office.hear()
    office.world.touch("TFJob", "mnist")
    mark = len(office.world.writes)
    outcome = await office.reconcile(deaf=True)
    assert isinstance(outcome.error, Conflict), "the worker retries after a short back-off"
    await office.reconcile(deaf=True)
    assert office.states()[-1] == "Succeeded"
    assert office.since(mark) == ["status mnist", "status mnist"], "one that was rejected, one that was not"


@pytest.mark.parametrize("then", ["gone", "again"])
async def test_a_deleted_job_gets_no_pods(then):
    office = Office(SMALL)
    del office.world.jobs["TFJob", "mnist"]
    office.world.news()
    if then == "again":
        office.world.submit("TFJob", "mnist", a_spec(Worker=1))
    await office.reconcile(deaf=True)
    assert office.world.made == []
    await office.reconcile(deaf=True)
    if then == "gone":
        assert office.world.made == []
        assert office.view.snapshot(KEY, office.world.now) is None
    else:
        assert office.world.made == ["mnist-worker-0"], "the new job has pods of its own"
        assert office.world.pods["mnist-worker-0"].owner == office.job()["metadata"]["uid"]


async def test_a_recreated_job_seen_during_a_reconcile_stays_cached(monkeypatch):
    office = Office(SMALL)
    read = office.world.read_job

    async def read_late(*which):
        if office.job()["metadata"]["uid"] == old:
            del office.world.jobs["TFJob", "mnist"]
            office.world.submit("TFJob", "mnist", a_spec(Worker=1))
            office.hear()
        return await read(*which)

    old = office.job()["metadata"]["uid"]
    monkeypatch.setattr(office.world, "read_job", read_late)
    await office.reconcile(3, seconds=1)
    assert office.snapshot().job.uid != old
    assert office.world.made == ["mnist-worker-0"]


async def test_an_outdated_spec_causes_no_actions():
    office = Office(SMALL)
    office.world.edit("TFJob", "mnist", lambda spec: spec["tfReplicaSpecs"]["Worker"].update(replicas=1))
    await office.reconcile(deaf=True)
    assert office.world.made == []
    await office.reconcile(deaf=True)
    assert sorted(office.world.made) == PODS[:2]


async def test_a_foreign_terminal_condition_prevents_new_pods():
    office, other = Office(a_spec(Chief=1, Worker=2, policy={"cleanPodPolicy": "All"})), Office()
    # A second operator has the old job and no pods in its cache: it has received no events of either.
    other.view.jobs["TFJob"].changed(next(iter(office.view.jobs["TFJob"].items.values())))
    await office.run_all()
    late = Reconciler(office.world, other.view, other.recorder, other.metrics)
    office.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    office.hear()
    await office.reconcile(3, seconds=1)
    for name in list(office.world.pods):
        office.world.confirm_deletion(name)
    assert isinstance((await late.reconcile(KEY, office.world.now)).error, Conflict)
    assert sorted(office.world.made) == PODS


async def test_a_refusal_is_in_the_status_until_it_is_resolved():
    office = Office(SMALL)
    office.world.quota = 1
    outcome = await office.reconcile()
    assert outcome.error.reason == "QuotaExceeded"
    assert office.states() == ["Created", "Blocked"]
    office.world.quota = 10
    await office.reconcile(2, seconds=1)
    assert "Blocked" not in office.states()
    assert sorted(office.world.made) == PODS


async def test_a_pod_missing_in_the_watch_is_read_until_it_is_gone():
    office = await group_with_one_hidden()
    mark = len(office.world.writes)
    assert (await office.reconcile(3, seconds=1)).error.reason == "LabelRemoved"
    assert office.since(mark) == ["status mnist"], "only the reason is written"
    assert office.states() == ["Created", "Running", "Blocked"]
    del office.world.pods["mnist-worker-0"]
    await office.reconcile(seconds=1)
    assert office.job()["status"]["attempts"] == {"Chief": 1, "Worker": 1}


async def test_nothing_is_decided_while_missing_pods_cannot_be_read():
    office = await group_with_one_hidden()
    Weak(office.world, "seek_pod", Unavailable("no answer"))
    mark = len(office.world.writes)
    assert (await office.reconcile()).error.reason == "Unavailable"
    assert office.since(mark) == []


async def test_a_lost_response_does_not_block_the_job():
    office = Office(SMALL)
    Weak(office.world, "create_pod", Unavailable("no answer"))
    outcome = await office.reconcile()
    assert outcome.error is not None
    assert office.snapshot().refusal is None
    await office.reconcile(2, seconds=1)
    assert office.states() == ["Created"]
    assert sorted(office.world.made) == PODS


async def test_a_failed_read_after_a_conflict_is_retried():
    office = Office(SMALL)
    await office.run_all()
    office.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    office.hear()
    office.world.touch("TFJob", "mnist")
    Weak(office.world, "read_job", Unavailable("no answer"))
    assert (await office.reconcile(deaf=True)).error is not None
    await office.reconcile(2)
    assert office.states()[-1] == "Succeeded"


async def test_reconciling_a_missing_job_does_nothing():
    assert await Office().reconcile() == Result()


async def test_the_log_line_names_the_changes():
    office = Office(SMALL)
    assert (await office.reconcile()).message == "created 3 Services, created 3 pods"
    await office.run_all()
    office.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    office.hear()
    assert (await office.reconcile()).message == "Running=False, Succeeded=True"
    assert (await office.reconcile(seconds=1)).message == ""

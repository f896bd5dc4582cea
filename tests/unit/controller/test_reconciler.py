"""A reconcile plans, stores the status, writes Events and acts in this order, and starts again after a conflict."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.builders import a_pod
from support.harness import KEY, Harness, a_spec, group_with_one_hidden
from support.replace import replace
from trainshed.client import Conflict, Forbidden, Unavailable
from trainshed.controller.reconciler import Reconciler, Result
from trainshed.controller.status_writes import PROGRESS
from trainshed.plan.messages.job_conditions import MANY
from trainshed.plan.pods import MAX_CREATED

SMALL = a_spec(Chief=1, Worker=2)
PODS = ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]


async def test_pods_are_created_once_without_watch_events():
    harness = Harness(SMALL)
    await harness.reconcile(3, deaf=True)
    assert sorted(harness.world.made) == PODS
    assert [pod.name for pod in harness.snapshot().pods] == PODS


async def test_the_status_of_a_big_job_is_stored_before_its_pods_and_tells_how_many_there_are():
    harness = Harness(a_spec(Chief=1, Worker=MAX_CREATED + MANY))
    await harness.reconcile(deaf=True)
    assert harness.world.writes[0] == "status mnist"
    assert harness.states() == ["Created"]
    assert "startTime" in harness.job()["status"]
    assert len(harness.world.made) == MAX_CREATED
    outcome = await harness.reconcile(deaf=True, seconds=1)
    assert len(harness.world.made) == 2 * MAX_CREATED, "the first answers are in the cache"
    assert harness.world.writes.count("status mnist") == 1
    assert outcome.requeue_at == harness.world.now
    outcome = await harness.reconcile(seconds=1)
    assert len(harness.world.made) == MAX_CREATED + MANY + 1
    assert outcome.requeue_at == harness.world.now - timedelta(seconds=2) + PROGRESS


async def test_an_unchanged_job_causes_no_requests():
    harness = Harness(SMALL)
    await harness.run_all()
    mark = len(harness.world.writes)
    assert await harness.reconcile(5, seconds=60) == Result(pods=len(harness.world.pods))
    assert harness.since(mark) == []


@pytest.mark.fault("A9")
async def test_a_terminal_condition_is_stored_before_pods_are_deleted():
    harness = Harness(a_spec(Chief=1, Worker=2, policy={"cleanPodPolicy": "All"}))
    await harness.run_all()
    mark = len(harness.world.writes)
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()
    await harness.reconcile(3, seconds=1)
    writes = harness.since(mark)
    assert writes[0] == "status mnist"
    assert sum(write.startswith("delete pod") for write in writes) == 3
    assert harness.states()[-1] == "Succeeded"


async def test_an_event_is_written_after_its_status_is_stored():
    harness = Harness(SMALL)
    await harness.run_all()
    await harness.recorder.flush()
    mark = len(harness.world.writes)
    harness.world.set_pod("mnist-worker-0", "Failed", code=1)
    harness.hear()
    await harness.reconcile()
    harness.world.fail("store_status", Unavailable("no answer"))
    assert (await harness.reconcile(seconds=3)).error is not None
    await harness.recorder.flush()
    assert harness.since(mark) == []
    await harness.reconcile(2)
    await harness.recorder.flush()
    assert harness.since(mark).index("status mnist") < harness.since(mark).index("event TFJobFailed")


async def test_after_a_conflict_the_cache_has_the_current_job():
    harness = Harness(SMALL)
    await harness.run_all()
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()
    harness.world.touch("TFJob", "mnist")
    mark = len(harness.world.writes)
    outcome = await harness.reconcile(deaf=True)
    assert isinstance(outcome.error, Conflict), "the worker retries after a short back-off"
    await harness.reconcile(deaf=True)
    assert harness.states()[-1] == "Succeeded"
    assert harness.since(mark) == ["status mnist", "status mnist"], "one that was rejected, one that was not"


@pytest.mark.parametrize("then", ["gone", "again"])
async def test_a_deleted_job_gets_no_pods(then):
    harness = Harness(SMALL)
    harness.world.delete("tfjobs")
    harness.lose_events()
    if then == "again":
        harness.world.submit("TFJob", "mnist", a_spec(Worker=1))
    await harness.reconcile(deaf=True)
    assert harness.world.made == []
    await harness.reconcile(deaf=True)
    if then == "gone":
        assert harness.world.made == []
        assert harness.view.snapshot(KEY, harness.world.now) is None
    else:
        assert harness.world.made == ["mnist-worker-0"], "the new job has pods of its own"
        assert harness.world.pods["mnist-worker-0"].owner == harness.job()["metadata"]["uid"]


async def test_a_job_of_the_same_name_inherits_neither_a_delay_of_its_status_nor_a_start_time():
    def renewed(harness: Harness) -> Harness:
        harness.world.submit("TFJob", "mnist", SMALL)
        harness.hear()
        return harness

    old = Harness(a_spec(Chief=1, Worker=MANY))
    await old.reconcile()
    old.world.delete("tfjobs")
    old.lose_events()
    again, first = renewed(old), renewed(Harness())
    outcomes = [await harness.reconcile() for harness in (again, first)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].requeue_at - first.world.now < PROGRESS
    assert again.metrics._starting._since == first.metrics._starting._since


@pytest.mark.parametrize(("age", "made"), [(-2, True), (0, True), (2, True), (3, False), (-3, False), (30, False)])
async def test_only_a_new_job_is_not_read_before_its_pods_are_created(age, made):
    harness = Harness()
    harness.world.submit("TFJob", "mnist", SMALL, created=harness.world.now - timedelta(seconds=age))
    harness.hear()
    harness.world.fail("read_job", Unavailable("no answer"))
    assert ((await harness.reconcile()).error is None) is made
    assert sorted(harness.world.made) == (PODS if made else [])


async def test_a_job_of_which_kopf_has_seen_more_is_read_before_it_is_planned():
    harness = Harness()
    harness.world.submit("TFJob", "mnist", SMALL)
    seen = harness.job()["metadata"]["resourceVersion"]
    harness.view.seen(KEY, seen)
    assert harness.woken == [KEY]
    harness.world.fail("read_job", Unavailable("no answer"))
    assert isinstance((await harness.reconcile(deaf=True)).error, Unavailable)
    await harness.reconcile(2, deaf=True)
    assert sorted(harness.world.made) == PODS
    harness.world.delete("tfjobs")
    harness.view.seen(KEY, "9999")
    await harness.reconcile(deaf=True)
    assert harness.view.snapshot(KEY, harness.world.now) is None


@pytest.mark.parametrize(("reached", "read"), [("1", False), ("9999", True)])
async def test_a_new_job_is_read_if_the_watch_of_jobs_is_behind_that_of_pods(reached, read):
    harness = Harness()
    harness.world.submit("TFJob", "mnist", SMALL, created=harness.world.now)
    harness.hear()
    harness.view.pods.store.on_bookmark(reached)  # pods of the job may have come and gone
    harness.world.delete("tfjobs")
    await harness.reconcile(deaf=True)
    assert (harness.world.made == []) is read


@pytest.mark.parametrize(("seen", "read"), [("others", False), ("its own", True), ("none", True)])
async def test_a_new_job_is_read_if_pods_of_it_may_have_come_and_gone_before_the_watch_of_jobs_says_so(seen, read):
    harness = Harness()
    harness.world.submit("TFJob", "mnist", SMALL, created=harness.world.now)
    harness.hear()
    (job,) = harness.view.jobs["TFJob"].items.values()
    pods = harness.view.pods.store
    pods.replaced([], "9990" if seen == "none" else str(int(job.version) - 1))  # since then the watch has seen all
    pod = replace(a_pod("worker-0"), owner=job.uid if seen == "its own" else "another", version="9998")
    pods.changed(pod)
    pods.removed(replace(pod, version="9999"))
    harness.world.delete("tfjobs")
    await harness.reconcile(deaf=True)
    assert (harness.world.made == []) is read


@pytest.mark.parametrize("by", ["list", "watch"])
async def test_a_new_job_that_only_a_list_has_delivered_is_read(by):
    harness = Harness()
    harness.world.submit("TFJob", "mnist", SMALL, created=harness.world.now)
    harness.hear()
    jobs = harness.view.jobs["TFJob"]
    (job,) = jobs.items.values()
    jobs.replaced([job], job.version if by == "list" else str(int(job.version) - 1))
    harness.world.delete("tfjobs")  # the server has answered both lists from what it remembered
    await harness.reconcile(deaf=True)
    assert (harness.world.made == []) is (by == "list")


@pytest.mark.parametrize("has", ["pods", "status"])
async def test_a_new_job_that_has_started_is_read_before_pods_are_created(has):
    harness = Harness()
    harness.world.submit("TFJob", "mnist", SMALL, created=harness.world.now)
    harness.hear()
    if has == "pods":
        await harness.reconcile()
        assert "status" not in harness.job()
        harness.world.edit("TFJob", "mnist", lambda spec: spec["tfReplicaSpecs"]["Worker"].update(replicas=3))
        harness.hear()
    else:
        harness.world.fail("create_pod", Forbidden("no quota"))
        await harness.reconcile()
        assert (harness.states(), harness.world.made) == (["Created", "Blocked"], [])
    made = list(harness.world.made)
    harness.world.fail("read_job", Unavailable("no answer"))
    assert (await harness.reconcile()).error is not None
    assert harness.world.made == made
    await harness.reconcile()
    assert len(harness.world.made) == (4 if has == "pods" else 3)


async def test_a_recreated_job_seen_during_a_reconcile_stays_cached(monkeypatch):
    harness = Harness(SMALL)
    read = harness.world.read_job

    async def read_late(*which):
        if harness.job()["metadata"]["uid"] == old:
            harness.world.delete("tfjobs")
            harness.world.submit("TFJob", "mnist", a_spec(Worker=1))
            harness.hear()
        return await read(*which)

    old = harness.job()["metadata"]["uid"]
    monkeypatch.setattr(harness.world, "read_job", read_late)
    await harness.reconcile(3, seconds=1)
    assert harness.snapshot().job.uid != old
    assert harness.world.made == ["mnist-worker-0"]


async def test_an_outdated_spec_causes_no_actions():
    harness = Harness(SMALL)
    harness.world.edit("TFJob", "mnist", lambda spec: spec["tfReplicaSpecs"]["Worker"].update(replicas=1))
    await harness.reconcile(deaf=True)
    assert harness.world.made == []
    await harness.reconcile(deaf=True)
    assert sorted(harness.world.made) == PODS[:2]


async def test_a_foreign_terminal_condition_prevents_new_pods():
    harness, other = Harness(a_spec(Chief=1, Worker=2, policy={"cleanPodPolicy": "All"})), Harness()
    # A second operator has the old job and no pods in its cache: it has received no events of either.
    other.view.jobs["TFJob"].changed(next(iter(harness.view.jobs["TFJob"].items.values())))
    await harness.run_all()
    late = Reconciler(harness.world, other.view, other.recorder, other.metrics)
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()
    await harness.reconcile(3, seconds=1)
    for name in list(harness.world.pods):
        harness.world.confirm_deletion(name)
    assert isinstance((await late.reconcile(KEY, harness.world.now)).error, Conflict)
    assert sorted(harness.world.made) == PODS


async def test_a_refusal_is_in_the_status_until_it_is_resolved():
    harness = Harness(SMALL)
    harness.world.set_quota(1)
    outcome = await harness.reconcile()
    assert outcome.error.reason == "QuotaExceeded"
    assert harness.states() == ["Created", "Blocked"]
    harness.world.set_quota(10)
    await harness.reconcile(2, seconds=1)
    assert "Blocked" not in harness.states()
    assert sorted(harness.world.made) == PODS


async def test_a_pod_missing_in_the_watch_is_read_until_it_is_gone():
    harness = await group_with_one_hidden()
    mark = len(harness.world.writes)
    assert (await harness.reconcile(3, seconds=1)).error.reason == "LabelRemoved"
    assert harness.since(mark) == ["status mnist"], "only the reason is written"
    assert harness.states() == ["Created", "Running", "Blocked"]
    harness.world.delete("pods", "mnist-worker-0", 0)
    await harness.reconcile(seconds=1)
    assert harness.job()["status"]["attempts"] == {"Chief": 1, "Worker": 1}


async def test_nothing_is_decided_while_missing_pods_cannot_be_read():
    harness = await group_with_one_hidden()
    harness.world.fail("seek_pod", Unavailable("no answer"))
    mark = len(harness.world.writes)
    assert (await harness.reconcile()).error.reason == "Unavailable"
    assert harness.since(mark) == []


async def test_a_lost_response_does_not_block_the_job():
    harness = Harness(SMALL)
    harness.world.fail("create_pod", Unavailable("no answer"))
    outcome = await harness.reconcile()
    assert outcome.error is not None
    assert harness.snapshot().refusal is None
    await harness.reconcile(2, seconds=1)
    assert harness.states() == ["Created"]
    assert sorted(harness.world.made) == PODS


async def test_a_failed_read_after_a_conflict_is_retried():
    harness = Harness(SMALL)
    await harness.run_all()
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()
    harness.world.touch("TFJob", "mnist")
    harness.world.fail("read_job", Unavailable("no answer"))
    assert (await harness.reconcile(deaf=True)).error is not None
    await harness.reconcile(2)
    assert harness.states()[-1] == "Succeeded"


async def test_reconciling_a_missing_job_does_nothing():
    assert await Harness().reconcile() == Result()


async def test_the_log_line_names_the_changes():
    harness = Harness(SMALL)
    assert (await harness.reconcile()).message == "created 3 Services, created 3 pods"
    await harness.run_all()
    harness.world.set_pod("mnist-chief-0", "Succeeded", code=0)
    harness.hear()
    assert (await harness.reconcile()).message == "Running=False, Succeeded=True"
    assert (await harness.reconcile(seconds=1)).message == ""


async def test_a_pod_whose_label_names_another_job_is_not_gone_because_a_list_lacks_it():
    harness = Harness(a_spec(Worker=2))
    await harness.run_all()
    harness.world.patch("pods", "mnist-worker-0", {"labels": {"training.kubeflow.org/job-name": "other"}})
    harness.hear()
    assert harness.view.on_list(harness.snapshot(), *await harness.world.read_pods("ml", "mnist"))
    assert [pod.name for pod in harness.snapshot().pods] == ["mnist-worker-0", "mnist-worker-1"]

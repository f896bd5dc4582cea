"""What is decided about jobs that ask is kept, whatever fails in between, in few writes; other jobs cost nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from support.builders import T0, a_job, at, pods_of, running, seen
from support.harness import Harness, a_spec
from support.replace import replace
from support.virtual_time import clock, in_virtual_time
from support.world import NAMESPACE
from trainshed.api.framework import JobDefaults
from trainshed.api.job import RecordDecisions
from trainshed.client import Conflict, Forbidden, Invalid, NotFound, NotLeader, TooManyRequests, Unavailable
from trainshed.controller import job_decisions
from trainshed.controller.job_decisions import MOST_CONFLICTS, MOST_WAITING
from trainshed.controller.observer import Observers
from trainshed.decisions import RESULTS, ring

from .recorded_jobs import JOB, LACKS, RUNS, Recorded, fails

ASKS = {"trainshed.dev/record": "Decisions"}
SITE, ALL = (JobDefaults(record_decisions=RecordDecisions(word)) for word in ("Annotated", "All"))


def harness(annotations: dict[str, str], defaults: JobDefaults) -> tuple[Harness, Recorded]:
    """Return a job of two workers, with an operator that records."""
    found = Harness(job_defaults=defaults)
    found.world.submit("TFJob", "mnist", a_spec(Worker=2), annotations)
    found.hear()
    recorded = Recorded(found.world)
    found.reconciler._metrics = Observers(found.metrics, recorded.recorder)
    return found, recorded


async def fail(found: Harness) -> None:
    """Let the job run and fail."""
    await found.run_all()
    found.world.set_pod("mnist-worker-1", "Failed", code=1)
    found.hear()
    await found.reconcile(6, seconds=1)


@pytest.mark.parametrize(("annotations", "defaults"), [(ASKS, SITE), (ASKS, ALL), ({}, ALL)])
async def test_a_job_that_fails_has_its_decisions_in_one_write_and_another_one_for_what_follows(annotations, defaults):
    found, recorded = harness(annotations, defaults)
    await fail(found)
    uid = found.job()["metadata"]["uid"]
    await recorded.write()
    name = ring.name_of(uid)
    assert recorded.requests == [f"create configmaps {name}"]
    rules = [one.rule for one in recorded.kept(uid)]
    assert (rules[0], "fail" in rules) == ("reconcile_replicas", True)
    assert recorded.world.get("configmaps", name)["metadata"]["ownerReferences"] == [
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": uid}
    ]
    await found.reconcile(6, seconds=1)
    await recorded.write(60)
    assert len(recorded.requests) <= 2
    found.world.delete("tfjobs")
    assert recorded.kept(uid) == []


@pytest.mark.parametrize(
    ("annotations", "defaults", "in_vain"),
    [
        ({}, SITE, False),
        ({"trainshed.dev/record": "true"}, replace(SITE, record=True), False),
        (ASKS, JobDefaults(record=True), True),
        ({}, JobDefaults(), False),
    ],
)
async def test_a_job_that_does_not_ask_costs_no_request_and_no_memory(annotations, defaults, *, in_vain: bool):
    found, recorded = harness(annotations, defaults)
    await fail(found)
    await recorded.recorder.finish(1)
    assert recorded.requests == []
    assert (recorded.recorder._jobs, recorded.recorder._waiting, recorded.recorder._loaded) == ({}, {}, {})
    await found.recorder.flush()
    assert ("event RecordDisabled" in found.world.writes) == in_vain


def test_a_job_is_written_twice_a_minute_at_most_and_at_its_end():
    async def story() -> list[float]:
        recorded, times, began = Recorded(), [], clock()
        recorded.recorder._now = lambda: T0 + timedelta(seconds=clock() - began)
        task = asyncio.create_task(recorded.recorder.run())
        for second in range(300):
            if second <= 200:
                recorded.decide(fails(1, 200) if second == 200 else replace(seen(JOB), now=at(second)))
            await asyncio.sleep(1)
            times += [clock() - began] * (len(recorded.requests) - len(times))
        task.cancel()
        assert recorded.kept()[-1].n > 150
        return times

    times = in_virtual_time(story())
    gaps = [after - before for before, after in pairwise(times)]
    assert times[0] == pytest.approx(30, abs=2)
    assert min(gaps[:-1]) >= 29  # to the second
    assert times[-1] == pytest.approx(200, abs=2)


async def test_what_is_decided_during_a_write_is_written_later_and_an_end_at_once():
    for end, due in ((), 30), ((True,), 0):
        recorded = Recorded()
        recorded.decide(seen(JOB))
        create = recorded.store.create

        async def creating(*arguments, recorded=recorded, create=create, end=end):
            recorded.decide(fails(1, 90) if end else LACKS)
            return await create(*arguments)

        recorded.store.create = creating
        await recorded.write(30)
        (waiting,) = recorded.recorder._waiting.values()
        assert waiting.due - recorded.world.now == timedelta(seconds=due)
        await recorded.write(due)
        assert [one.n for one in recorded.kept()] == [1, 2]


async def test_the_next_operator_goes_on_and_says_what_may_be_missing():
    recorded = Recorded()
    recorded.decide(seen(JOB))
    await recorded.write(30)
    recorded.decide(LACKS)  # and dies before it is written
    recorded.start()
    recorded.decide(fails(1, 90))
    await recorded.write(30)
    found = recorded.kept()
    assert [(one.n, one.after_restart, one.rule) for one in found] == [
        (1, False, "reconcile_replicas"),
        (2, True, "fail"),
    ]
    assert len(recorded.requests) == 3


async def test_a_new_operator_that_decides_nothing_new_writes_nothing():
    recorded = Recorded()
    recorded.decide(seen(JOB))
    await recorded.write(30)
    recorded.start()
    recorded.decide(RUNS, replace(RUNS, now=at(20)))
    await recorded.recorder.finish(1)
    assert len(recorded.requests) == 1
    recorded.decide(fails(1, 90))
    await recorded.write(30)
    assert [(one.n, one.after_restart, one.rule) for one in recorded.kept()][1:] == [(2, True, "fail")]


async def test_an_operator_that_takes_a_job_for_new_goes_on_from_what_another_has_recorded():
    recorded = Recorded()
    recorded.decide(seen(JOB), LACKS)
    await recorded.write(30)
    recorded.start()  # and the status was not stored
    recorded.decide(replace(seen(JOB), now=at(50)), fails(1, 90))
    await recorded.write(30)
    found = recorded.kept()
    assert [(one.n, one.after_restart) for one in found] == [(1, False), (2, False), (3, True), (4, False)]
    assert all(one.saw for one in found)
    recorded.decide(replace(LACKS, now=at(99)))
    await recorded.write(30)
    assert [one.n for one in recorded.kept()] == [1, 2, 3, 4, 5]


async def test_who_leads_again_during_a_write_writes_what_was_decided_since():
    recorded = Recorded()
    recorded.decide(seen(JOB))
    create = recorded.store.create

    async def creating(*arguments):
        recorded.recorder.step_down()
        recorded.decide(LACKS)
        return await create(*arguments)

    recorded.store.create = creating
    await recorded.write(30)
    assert len(recorded.kept()) == 1
    await recorded.write(30)
    assert [(one.n, one.after_restart) for one in recorded.kept()] == [(1, False), (2, True)]


async def test_the_decision_after_those_that_are_lost_says_how_many():
    recorded = Recorded()
    acting = [replace(LACKS, now=at(n)) for n in range(MOST_WAITING + 1)]
    idle = replace(RUNS, status=replace(RUNS.status, start=None))
    recorded.decide(*acting[:MOST_WAITING], idle, acting[-1])
    await recorded.write(30)
    assert [one.missed for one in recorded.kept()] == [1, *[0] * (MOST_WAITING - 2), 1]
    assert recorded.kept()[0].time == acting[1].now


async def test_the_last_decisions_are_written_when_the_operator_ends():
    recorded = Recorded()
    recorded.decide(seen(JOB))
    task = asyncio.create_task(recorded.recorder.run())
    await recorded.recorder.finish(1)
    task.cancel()
    assert len(recorded.kept()) == 1
    await recorded.recorder._write(JOB.uid)


@pytest.mark.parametrize("verb", ["create", "merge"])
async def test_after_a_lost_answer_each_decision_is_there_once(verb: str):
    recorded = Recorded()
    recorded.decide(seen(JOB))
    if verb == "merge":
        await recorded.write(30)
        recorded.decide(LACKS)
    call = getattr(recorded.store, verb)

    async def losing(*arguments):
        await call(*arguments)
        setattr(recorded.store, verb, call)
        raise Unavailable("the response was lost")

    setattr(recorded.store, verb, losing)
    await recorded.write(30)
    assert recorded.recorder._waiting
    recorded.decide(fails(1, 90))
    await recorded.write(30)
    assert [one.n for one in recorded.kept()] == list(range(1, 3 + (verb == "merge")))
    assert (recorded.recorder._waiting, recorded.events) == ({}, [])
    await recorded.write(60)
    assert recorded.counts == {"Kept": 2 + (verb == "merge"), "Missed": 0, "Refused": 0}


async def test_what_others_change_or_delete_is_written_again():
    recorded, name = Recorded(), ring.name_of(JOB.uid)
    recorded.decide(seen(JOB))
    await recorded.write(30)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
    recorded.world.server.request(
        "user", "PATCH", path, body={"binaryData": {"part-00000001": None, "part-00000099": "AAAA", "x": "AAAA"}}
    )
    recorded.decide(LACKS)
    await recorded.write(30)
    assert [one.n for one in recorded.kept()] == [1, 2]
    assert list(recorded.world.get("configmaps", name)["binaryData"]) == ["part-00000001"]
    recorded.world.delete("configmaps", name)
    recorded.decide(fails(1, 90))
    await recorded.write(30)
    assert [one.n for one in recorded.kept()] == [1, 2, 3]


async def test_a_config_map_of_somebody_else_is_left_alone():
    recorded, name = Recorded(), ring.name_of(JOB.uid)
    recorded.world.create("configmaps", {"metadata": {"name": name, "labels": ring.LABELS}, "data": {"a": "b"}})
    recorded.decide(LACKS)
    await recorded.write(30)
    assert recorded.world.get("configmaps", name)["data"] == {"a": "b"}
    assert (recorded.events, recorded.counts["Refused"]) == ([("mnist", "DecisionsNotRecorded")], 1)
    recorded.decide(fails(1, 90))
    await recorded.write(30)
    assert (len(recorded.requests), len(recorded.events)) == (1, 1)


@pytest.mark.parametrize("error", [Forbidden("exceeded quota"), Invalid("no"), NotFound("no namespace")])
async def test_a_refusal_has_one_event(error: Exception):
    recorded = Recorded()

    async def refusing(*_arguments):
        raise error

    recorded.store.create = refusing
    recorded.decide(seen(JOB), LACKS)
    for _ in range(3):
        await recorded.write(600)
        recorded.decide(fails(1, 90))
    assert recorded.events == [("mnist", "DecisionsNotRecorded")]
    assert recorded.counts == {"Kept": 0, "Missed": 0, "Refused": 2}


@pytest.mark.parametrize("error", [Unavailable("no answer"), TooManyRequests("later"), Conflict("again")])
async def test_what_may_pass_is_tried_again_ever_rarer_and_what_waits_is_bounded(error: Exception):
    recorded, tries = Recorded(), []
    create = recorded.store.create

    async def failing(*_arguments):
        tries.append(recorded.world.now)
        raise error

    recorded.store.create = failing
    recorded.decide(seen(JOB))
    for _ in range(360):
        await recorded.write(10)
    assert len(set(tries)) < 15
    assert len(tries) == len(set(tries)) * (MOST_CONFLICTS if isinstance(error, Conflict) else 1)
    assert recorded.events == []
    acting, idle = fails(1, 90), replace(RUNS, status=replace(RUNS.status, start=None))
    recorded.decide(acting, *[idle, RUNS] * MOST_WAITING, *[acting] * MOST_WAITING)
    assert len(recorded.recorder._waiting[JOB.uid].waiting) == MOST_WAITING
    recorded.store.create = create
    await recorded.write(600)
    assert recorded.counts["Missed"] == sum(one.missed for one in recorded.kept()) > 0
    assert {one.rule for one in recorded.kept()[1:]} == {"fail"}


async def test_who_leads_no_more_writes_nothing():
    recorded = Recorded()
    recorded.decide(seen(JOB))

    async def deposed(*_arguments):
        raise NotLeader("another leads")

    recorded.store.create = deposed
    await recorded.write(30)
    assert recorded.recorder._waiting
    recorded.recorder.step_down()
    await recorded.write(60)
    assert (recorded.requests, recorded.events) == ([], [])


async def test_a_deleted_job_is_forgotten_and_one_of_the_same_name_is_another():
    recorded = Recorded()
    recorded.decide(replace(RUNS, job=replace(JOB, policy=replace(JOB.policy, managed_elsewhere=True))))
    assert recorded.recorder._jobs == {}  # what others manage
    recorded.decide(seen(JOB))
    recorded.recorder.forget(JOB.key, at(1))
    recorded.recorder.forget(JOB.key, at(1))
    await recorded.write(60)
    assert recorded.requests == []
    again = replace(JOB, uid="other-uid")
    recorded.decide(seen(JOB), seen(again))
    await recorded.write(60)
    assert [len(recorded.kept(uid)) for uid in ("job-uid", "other-uid")] == [1, 1]


async def test_only_some_jobs_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_decisions, "MOST_LOADED", 1)
    recorded = Recorded()
    other = replace(JOB, uid="other-uid", name="other")
    recorded.decide(seen(JOB), seen(other))
    await recorded.write(30)
    assert list(recorded.recorder._loaded) == ["other-uid"]
    recorded.decide(LACKS)
    await recorded.write(30)
    assert [(one.n, one.after_restart) for one in recorded.kept()] == [(1, False), (2, False)]
    recorded.decide(replace(LACKS, job=other), replace(LACKS, job=replace(JOB, uid="third", name="third")))
    await recorded.write(30)
    assert [len(recorded.kept(uid)) for uid in ("job-uid", "other-uid", "third")] == [2, 2, 1]


async def test_a_long_story_keeps_its_end(monkeypatch: pytest.MonkeyPatch):
    for name in "MOST_BYTES", "PART_BYTES", "PACKED_LINE":
        monkeypatch.setattr(ring, name, getattr(ring, name) // 8)
    recorded = Recorded()
    for n in range(200):
        recorded.decide(fails(n, n) if n % 2 else replace(seen(JOB), now=at(n)))
        if n % 40 == 39:
            await recorded.write(30)
    found = recorded.kept()
    assert found[0].n > 1
    assert [one.n for one in found] == list(range(found[0].n, 201))
    assert all(one.saw for one in found)


async def test_of_a_job_that_is_too_large_digests_are_kept_and_nothing_of_what_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    recorded = Recorded()
    big = a_job("PyTorchJob", worker=400, decisions=True)
    pods = tuple(replace(pod, uid=f"{n * 7919**9:x}", node=f"{n * 7907**9:x}") for n, pod in enumerate(pods_of(big)))
    large = replace(seen(big), pods=pods, status=replace(running(big), start=None))
    monkeypatch.setattr(ring, "PACKED_LINE", 6 << 10)
    recorded.decide(large)
    await recorded.write(30)
    (found,) = recorded.kept()
    assert (found.saw, found.unread) == (None, "the job is too large")
    monkeypatch.setattr(ring, "PACKED_LINE", 10)
    recorded.decide(replace(large, pods=()))
    await recorded.write(30)
    assert recorded.counts["Missed"] == 1
    monkeypatch.undo()

    def broken(*_arguments, **_words):
        raise RecursionError

    loaded = recorded.recorder._loaded[JOB.uid].loaded
    monkeypatch.setattr(loaded.encoder, "line", broken)
    recorded.decide(LACKS)
    await recorded.write(30)
    assert "a decision cannot be recorded" in caplog.text
    monkeypatch.undo()
    recorded.decide(replace(seen(JOB), now=at(99)))
    await recorded.write(30)
    assert [(one.n, one.missed) for one in recorded.kept()] == [(1, 0), (2, 2)]


def test_the_metric_begins_with_all_results():
    text = Harness().metrics.text().decode()
    assert all(f'trainshed_recorded_decisions_total{{result="{word}"}} 0' in text for word in RESULTS)

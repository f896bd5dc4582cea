"""Each change of a job that asks is sent at most once, whatever fails in between; others cost nothing."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from support.harness import KEY
from support.virtual_time import in_virtual_time
from trainshed.api.framework import JobDefaults
from trainshed.client import Forbidden, NotLeader, Unavailable
from trainshed.controller.notifier import DELAYS, LATER, TRIES
from trainshed.notify.news import MAX_AGE, TOGETHER
from trainshed.notify.sending import NotSent
from trainshed.notify.webhooks import BadWebhook

from .notified_jobs import ASKS, SITE, NotifiedJob


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainshed.controller.notifier.PACE", 0.0)
    monkeypatch.setattr("trainshed.controller.notifier.AGAIN", 0.0)
    monkeypatch.setattr("trainshed.controller.notifier.DELAYS", (0.0,) * len(DELAYS))


async def a_running_job(**job: object) -> NotifiedJob:
    found = NotifiedJob(**job)
    await found.harness.run_all()
    return found


async def test_the_messages_about_a_job_that_runs_and_fails_have_its_story():
    found = await a_running_job()
    assert await found.send() == ["Running"]
    await found.end("Failed", 3)
    assert await found.send() == ["Running", "Failed"]
    message, job = found.team.got[-1], found.harness.job()
    assert (message["kind"], message["namespace"], message["name"]) == ("TFJob", "ml", "mnist")
    assert (message["uid"], message["id"]) == (job["metadata"]["uid"], job["status"]["notified"]["id"])
    assert message["text"].startswith("TFJob ml/mnist has failed after")
    assert "exited with code 3" in json.dumps(message["story"])
    assert message["url"] == "https://sheds.example.com/jobs/ml/TFJob/mnist"
    assert found.results() == {"Sent": 2}
    assert found.events == []


async def test_a_job_that_does_not_ask_costs_nothing():
    for asks, defaults in ({}, SITE), (ASKS, JobDefaults()), ({"trainshed.dev/notify": ""}, SITE):
        found = NotifiedJob(asks, defaults)
        await found.harness.run_all()
        reads = len(found.world.reads)
        assert await found.send() == []
        assert (len(found.world.reads), found.notifier._seen) == (reads, {})
    await found.harness.recorder.flush()
    assert "event NotifyDisabled" not in found.world.writes


async def test_a_job_that_asks_in_vain_has_an_event():
    found = NotifiedJob(defaults=JobDefaults())
    await found.harness.run_all()
    await found.harness.recorder.flush()
    assert "event NotifyDisabled" in found.world.writes


async def test_a_state_is_sent_once_however_often_it_is_reconciled_and_by_however_many_operators():
    found = await a_running_job()
    for _ in range(3):
        await found.send()
        found.start()
        await found.harness.reconcile(3, seconds=1)
    assert await found.send() == ["Running"]


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_after_a_crash_at_the_write_nothing_is_sent_twice(fault: str):
    found = await a_running_job()
    error = asyncio.CancelledError()
    if fault == "after":
        call = found.world.store_status

        async def killed(*arguments: object) -> object:
            await call(*arguments)
            raise error

        found.world.store_status = killed
    else:
        found.world.fail("store_status", error)
    with pytest.raises(asyncio.CancelledError):
        await found.send()
    if fault == "after":
        found.world.store_status = call
    found.harness.hear()
    found.start()
    await found.harness.reconcile()
    assert await found.send() == (["Running"] if fault == "before" else [])


async def test_after_a_lost_response_a_message_is_sent_once():
    found = await a_running_job()
    found.world.lose_response("store_status")
    assert (await found.send(), found.results()) == (["Running"], {"Sent": 1})


async def test_a_conflict_is_resolved_by_reading_again():
    found = await a_running_job()
    read, times = found.world.read_job, []

    async def reading(*arguments: object) -> object:
        answer = await read(*arguments)
        if len(times) < 2:
            times.append(1)
            found.world.touch("TFJob", "mnist")
        return answer

    found.world.read_job = reading
    assert await found.send() == ["Running"]


async def test_what_may_not_be_stored_for_minutes_is_not_sent_and_an_event_says_so():
    found = await a_running_job()
    found.world.fail("store_status", Forbidden("no"), 9)
    for waited in (2, 5, 10, 20, 40, 80):
        assert await found.send(waited) == []
    assert (found.results(), found.events) == ({}, [])
    assert await found.send(160) == []
    assert (found.results(), len(found.events)) == ({"NotStored": 1}, 1)
    assert await found.send(600) == []


@pytest.mark.parametrize("verb", ["read_job", "store_status"])
@pytest.mark.parametrize("error", [Unavailable("no answer"), Forbidden("the rules are not read yet")], ids=repr)
async def test_a_message_outlasts_an_outage_of_the_api_server(verb: str, error: Exception):
    found, outage = await a_running_job(), 4
    found.world.fail(verb, error, outage * (TRIES if isinstance(error, Unavailable) else 1))
    for waited in (5, *(2**n * LATER.total_seconds() for n in range(outage - 1))):
        assert await found.send(waited) == []
        assert await found.send(0) == [], "it is tried ever more rarely"
    assert await found.send(2**outage * LATER.total_seconds()) == ["Running"]
    assert (found.results(), found.events) == ({"Sent": 1}, [])


async def test_a_message_outlasts_a_moment_in_which_the_operator_does_not_lead():
    found = await a_running_job()
    found.world.fail("store_status", NotLeader("the machine was asleep"))
    assert await found.send() == []
    assert await found.send() == ["Running"]
    assert found.results() == {"Sent": 1}


async def test_an_operator_that_no_longer_leads_keeps_no_message():
    found = await a_running_job()

    async def lost(*_arguments: object) -> None:
        found.notifier.step_down()
        raise NotLeader("another one leads")

    found.world.store_status = lost
    assert await found.send() == []
    assert found.notifier._waiting == {}


async def test_newer_news_replace_those_that_could_not_be_stored():
    found = await a_running_job()
    found.world.fail("read_job", Unavailable("no answer"), TRIES)
    assert await found.send() == []
    await found.end("Succeeded", 0)
    assert await found.send() == ["Succeeded"]
    assert await found.send(600) == ["Succeeded"]


async def test_a_crd_without_the_field_sends_nothing():
    found = await a_running_job()

    async def pruning(*arguments: object) -> dict:
        return found.harness.job()

    found.world.store_status = pruning
    assert (await found.send(), found.results()) == ([], {"NotStored": 1})


@pytest.mark.parametrize(
    ("faults", "sent", "results"),
    [
        ([NotSent("it answers 503", again=True, wait=0.01)] * 2, 1, {"Sent": 1}),
        ([NotSent("it cannot be connected to", again=True)] * 9, 0, {"Failed": 1}),
        ([NotSent("it does not answer within 10 s")], 0, {"Failed": 1}),
        ([NotSent("it answers 404")], 0, {"Failed": 1}),
    ],
)
async def test_a_request_is_repeated_only_if_the_webhook_has_not_got_it(faults: list, sent: int, results: dict):
    found = await a_running_job()
    found.team.faults = list(faults)
    assert len(await found.send()) == sent
    assert found.results() == results
    assert [reason for reason, _ in found.events] == ["NotifyFailed"] * (1 - sent)
    assert "secret" not in str(found.events)
    found.team.faults = []
    found.start()
    await found.harness.reconcile(2, seconds=10)
    assert len(await found.send()) == sent


async def test_an_unknown_webhook_has_an_event_and_nothing_is_stored():
    found = await a_running_job(annotations={"trainshed.dev/notify": "other"})
    assert await found.send() == []
    assert [reason for reason, _ in found.events] == ["NotifyUnknown"]
    assert "notified" not in found.harness.job()["status"]
    assert found.results() == {"Unknown": 1}


async def test_an_invalid_webhook_has_an_event():
    found = await a_running_job()
    found.team.known = BadWebhook("its format is none of json")
    assert await found.send() == []
    assert (found.events[0][0], found.results()) == ("NotifyFailed", {"Invalid": 1})


async def test_the_end_of_a_job_that_is_deleted_at_once_is_sent_all_the_same():
    found = await a_running_job(ttlSecondsAfterFinished=0)
    await found.send()
    await found.end("Succeeded", 0)
    assert found.harness.job() is None
    assert await found.send() == ["Running", "Succeeded"]


async def test_a_message_is_sent_even_if_its_job_is_deleted_while_the_status_is_stored():
    found = await a_running_job()
    store = found.world.store_status

    async def deleting(*arguments: object) -> object:
        found.world.delete("tfjobs")
        return await store(*arguments)

    found.world.store_status = deleting
    assert await found.send() == ["Running"]


async def test_an_operator_that_led_before_sends_nothing_about_a_deleted_job():
    found = await a_running_job()
    (item,) = found.notifier._waiting["team"].values()
    found.notifier.step_down()
    found.world.delete("tfjobs")
    assert found.notifier._waiting == {}
    await found.notifier._handle("team", item)
    assert found.team.got == []


async def test_a_restart_soon_after_another_is_sent_later_if_it_lasts():
    found = await a_running_job(restart="ExitCode")
    now = found.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    value = {"state": "Running", "since": now, "id": "x", "restartTime": now}
    found.world.replace("tfjobs", "mnist", lambda job: job["status"].update(notified=value), "status")
    found.harness.hear()
    found.world.set_pod("mnist-worker-0", "Failed", code=143)
    found.harness.hear()
    await found.harness.reconcile(2, seconds=5)
    assert await found.send() == []
    assert await found.send(TOGETHER.total_seconds()) == ["Restarting"]


async def test_what_is_old_is_no_news():
    found = await a_running_job()
    found.world.now += MAX_AGE + timedelta(seconds=1)
    assert await found.send() == []
    found.start()
    await found.harness.reconcile()
    assert (await found.send(), found.notifier._waiting) == ([], {})


async def test_only_the_chosen_states_are_sent():
    found = NotifiedJob()
    found.start(("Failed",))
    await found.harness.run_all()
    await found.end("Failed", 1)
    assert await found.send() == ["Failed"]


async def test_a_job_of_a_queue_that_begins_suspended_sends_nothing_until_it_runs():
    found = NotifiedJob(suspend=True)
    await found.harness.reconcile(3, seconds=1)
    assert await found.send() == []
    found.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=False))
    found.harness.hear()
    await found.harness.run_all()
    assert await found.send() == ["Running"]
    found.world.edit("TFJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))
    found.harness.hear()
    await found.harness.reconcile(3, seconds=1)
    assert await found.send() == ["Running", "Suspended"]


async def test_a_full_queue_drops_what_is_new(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("trainshed.controller.notifier.MOST_WAITING", 0)
    found = await a_running_job()
    found.notifier._in_namespace["ml"] = 1
    found.notifier._seen.clear()
    found.notifier._waiting.clear()
    await found.harness.reconcile()
    assert (await found.send(), found.results()) == ([], {"QueueFull": 1})


async def test_at_the_end_no_further_message_is_begun():
    found = await a_running_job()
    await found.notifier.finish(1)
    assert await found.send() == []
    assert "notified" not in found.harness.job()["status"]


async def test_a_job_that_was_deleted_is_forgotten():
    found = await a_running_job()
    assert KEY in found.notifier._seen
    found.world.delete("tfjobs")
    found.harness.hear()
    await found.harness.reconcile()
    assert found.notifier._seen == {}


def test_a_slow_webhook_delays_no_other_and_the_end_waits_for_what_is_under_way():
    async def story() -> tuple[list[str], list[str], bool]:
        found = await a_running_job()
        slow, release = [], asyncio.Event()
        (item,) = found.notifier._waiting["team"].values()
        found.notifier._waiting["slow"] = {item.snapshot.job.uid: item}
        handle = found.notifier._handle

        async def handling(name: str, one: object) -> None:
            if name == "slow":
                slow.append(name)
                await release.wait()
            else:
                await handle(name, one)

        found.notifier._handle = handling
        task = asyncio.create_task(found.notifier.run())
        found.world.now += timedelta(seconds=5)
        await asyncio.sleep(5)
        states = [message["state"] for message in found.team.got]
        ending = asyncio.create_task(found.notifier.finish(60))
        await asyncio.sleep(5)
        waits = not ending.done()
        release.set()
        await ending
        await found.notifier.finish(1)
        task.cancel()
        return states, slow, waits

    assert in_virtual_time(story()) == (["Running"], ["slow"], True)

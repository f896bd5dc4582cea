"""Events are aggregated, counted and rate-limited, and never block a reconcile."""

from __future__ import annotations

import asyncio
import sys

import pytest

from support.builders import a_job
from support.replace import replace
from support.virtual_time import clock, in_virtual_time, now
from trainshed.api.actions import Event, EventType
from trainshed.client import Conflict, Forbidden, NotFound
from trainshed.controller.events import (
    AGGREGATION_SECONDS,
    BURST,
    EVENT_DELAY_STEP,
    EVERY,
    MAX_EVENT_DELAY,
    MAX_EVENT_MESSAGE_BYTES,
    REMEMBERED,
    SAME,
    EventRecorder,
)

JOB = a_job(worker=2)
CREATED = Event(EventType.NORMAL, "SuccessfulCreatePod", "Created pod")


class EventSink:
    """Takes Events as an API server does; `slow` is the latency in seconds, `slow_in` that in some namespaces."""

    def __init__(self) -> None:
        self.events: dict[str, dict] = {}
        self.updates: list[dict] = []
        self.refuses = False
        self.slow = 0.0
        self.slow_in: dict[str, float] = {}

    def is_busy(self) -> bool:
        """Nothing waits."""
        return False

    async def create_event(self, namespace: str, body: dict) -> None:
        await asyncio.sleep(self.slow_in.get(namespace, self.slow))
        if self.refuses:
            raise Forbidden("no events here")
        assert body["metadata"]["namespace"] == namespace
        if body["metadata"]["name"] in self.events:
            raise Conflict(body["metadata"]["name"])
        self.events[body["metadata"]["name"]] = dict(body)

    async def update_event(self, _namespace: str, name: str, patch: dict) -> None:
        if name not in self.events:
            raise NotFound(name)
        self.updates.append(patch)
        self.events[name].update(patch)

    def messages(self) -> list[str]:
        return [event["message"] for event in self.events.values()]


class Scene:
    """A recorder that runs, and the place of its Events."""

    def __init__(self, sink: EventSink | None = None) -> None:
        self.sink, self.losses = sink or EventSink(), 0
        self.recorder = EventRecorder(self.sink, self._lose, now)
        self.task = asyncio.create_task(self.recorder.run())

    def tell(self, *notes: Event, names=(), job=JOB) -> None:
        for note in notes:
            self.recorder.record(job, note, names)

    async def settle(self) -> None:
        """Return when all Events are written."""
        await asyncio.sleep(2 * AGGREGATION_SECONDS + 0.1)
        assert not self.task.done()

    def _lose(self) -> None:
        self.losses += 1


def test_one_note_becomes_one_event_on_its_job():
    async def story():
        scene = Scene()
        scene.tell(CREATED, names=["mnist-worker-0"])
        await scene.settle()
        (event,) = scene.sink.events.values()
        assert event["message"] == "Created pod: mnist-worker-0"
        assert (event["type"], event["reason"], event["count"]) == ("Normal", "SuccessfulCreatePod", 1)
        assert event["source"] == {"component": "tfjob-controller"}
        assert event["reportingComponent"] == "tfjob-controller"
        assert event["involvedObject"] == {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "namespace": "ml",
            "name": "mnist",
            "uid": "job-uid",
            "resourceVersion": "1",
        }

    in_virtual_time(story())


def test_an_event_that_waits_does_not_keep_its_job():
    async def story():
        scene, job = Scene(), replace(JOB, uid="other-uid")
        before = sys.getrefcount(job)
        scene.tell(CREATED, job=job)
        assert sys.getrefcount(job) == before
        await scene.settle()
        assert len(scene.sink.events) == 1

    in_virtual_time(story())


def test_events_wait_a_while_for_objects_that_wait_to_be_created():
    async def written_after(busy_seconds: float) -> float:
        scene, began = Scene(), clock()
        scene.sink.is_busy = lambda: clock() - began < busy_seconds
        scene.tell(CREATED, names=["mnist-worker-0"])
        while not scene.sink.events:
            await asyncio.sleep(0.05)
        scene.task.cancel()
        return clock() - began

    assert in_virtual_time(written_after(0)) == pytest.approx(AGGREGATION_SECONDS, abs=0.1)
    assert in_virtual_time(written_after(3)) == pytest.approx(3, abs=EVENT_DELAY_STEP + 0.1)
    longest = AGGREGATION_SECONDS + MAX_EVENT_DELAY
    assert in_virtual_time(written_after(60)) == pytest.approx(longest, abs=EVENT_DELAY_STEP + 0.1)


def test_notes_with_one_reason_are_aggregated_into_one_event():
    async def story():
        scene = Scene()
        for index in (10, 9, 1):
            scene.tell(CREATED, names=[f"mnist-worker-{index}"])
        scene.tell(Event(EventType.WARNING, "FailedCreatePod", "Error creating: full"))
        await scene.settle()
        assert scene.sink.messages() == [
            "Created pod: mnist-worker-1, mnist-worker-9, mnist-worker-10",
            "Error creating: full",
        ]

    in_virtual_time(story())


@pytest.mark.parametrize(
    ("pods", "more"), [(5, ""), (6, " and 1 more (6 in total)"), (1000, " and 995 more (1000 in total)")]
)
def test_an_event_names_five_objects_and_the_number_of_the_others(pods, more):
    async def story():
        scene = Scene()
        scene.tell(CREATED, names=[f"mnist-worker-{index}" for index in reversed(range(pods))])
        await scene.settle()
        first = ", ".join(f"mnist-worker-{index}" for index in range(5))
        assert scene.sink.messages() == [f"Created pod: {first}{more}"]

    in_virtual_time(story())


def test_a_message_is_truncated_to_the_limit_of_the_api_server():
    async def story():
        scene = Scene()
        scene.tell(CREATED, names=["n" * 250 + str(index) for index in range(5)])
        scene.tell(Event(EventType.WARNING, "Long", "ä" * 2000))
        await scene.settle()
        message, long = scene.sink.messages()
        assert message.startswith("Created pod: nnn")
        assert long.startswith("äää")
        for text in (message, long):
            assert text.endswith(" ...")
            assert MAX_EVENT_MESSAGE_BYTES - 2 <= len(text.encode()) <= MAX_EVENT_MESSAGE_BYTES

    in_virtual_time(story())


def test_a_repeated_message_increases_the_count_and_later_is_a_new_event():
    async def story():
        scene = Scene()
        note = Event(EventType.WARNING, "FailedCreatePod", "Error creating: full")
        scene.tell(note, note)
        await scene.settle()
        scene.tell(note)
        await scene.settle()
        (event,) = scene.sink.events.values()
        assert event["count"] == 3
        for _ in range(20):
            scene.tell(note)
            await scene.settle()
        assert [patch["count"] for patch in scene.sink.updates] == [3, 5, 8, 12, 18], "few writes for many repetitions"
        await asyncio.sleep(SAME)
        scene.tell(note)
        await scene.settle()
        assert len(scene.sink.events) == 2

    in_virtual_time(story())


def test_a_repeated_message_whose_event_expired_is_written_again():
    async def story():
        scene = Scene()
        scene.tell(CREATED, names=["a"])
        await scene.settle()
        scene.sink.events.clear()
        scene.tell(CREATED, names=["a"])
        await scene.settle()
        assert scene.sink.messages() == ["Created pod: a"]

    in_virtual_time(story())


def test_a_note_with_a_key_is_written_once_per_job():
    async def story():
        scene = Scene()
        lasting = Event(EventType.WARNING, "SettedPodTemplateRestartPolicy", "it is overwritten", key="template")
        for _ in range(3):
            scene.tell(lasting)
            scene.tell(lasting, job=replace(JOB, uid="other"))
            await scene.settle()
        uids = [event["involvedObject"]["uid"] for event in scene.sink.events.values()]
        assert uids == ["job-uid", "other"]
        later = Scene(scene.sink)  # the next process
        later.tell(replace(lasting, message="it is overwritten, still"), replace(lasting, key="another"))
        await later.settle()
        assert scene.sink.messages() == ["it is overwritten"] * 3
        assert (scene.losses, later.losses) == (0, 0)

    in_virtual_time(story())


def test_events_of_a_job_are_rate_limited():
    async def story():
        scene = Scene()
        for number in range(BURST + 10):
            scene.tell(Event(EventType.NORMAL, "Different", f"number {number}"))
        await scene.settle()
        assert len(scene.sink.events) == BURST
        assert scene.losses == 10
        await asyncio.sleep(2 * EVERY + 1)
        for number in range(5):
            scene.tell(Event(EventType.NORMAL, "Later", f"number {number}"))
        await scene.settle()
        assert len(scene.sink.events) == BURST + 2

    in_virtual_time(story())


def test_count_updates_have_a_rate_limit_of_their_own():
    async def story():
        scene = Scene()
        refused = [
            Event(EventType.WARNING, "FailedCreatePod", f"Error creating: {number} is there") for number in range(10)
        ]
        for _ in range(6):
            scene.tell(*refused)
            await scene.settle()
        assert len(scene.sink.updates) == BURST
        scene.tell(Event(EventType.WARNING, "TFJobRestarting", "job mnist is restarting"))
        await scene.settle()
        assert len(scene.sink.events) == 11
        await asyncio.sleep(EVERY + 1)
        scene.tell(*refused)
        await scene.settle()
        assert len(scene.sink.updates) == BURST + 1
        assert scene.sink.updates[-1]["count"] == 7, "the dropped Events were counted"
        assert scene.losses == 0

    in_virtual_time(story())


def test_entries_without_effect_are_removed():
    async def story():
        scene = Scene()
        for number in range(200):
            scene.tell(CREATED, names=["a", "b"], job=replace(JOB, uid=f"job-{number}"))
            scene.tell(Event(EventType.NORMAL, "Other", "words"), job=replace(JOB, uid=f"job-{number}"))
            await asyncio.sleep(60)
        recorder = scene.recorder
        assert len(recorder._written) <= 2 * (SAME / 60 + 2)
        assert len(recorder._budgets) <= 2 * EVERY / 60 + 2

    in_virtual_time(story())


def test_a_rejected_event_is_only_counted():
    async def story():
        scene = Scene()
        scene.sink.refuses = True
        scene.tell(CREATED, names=["a"])
        scene.tell(Event(EventType.NORMAL, "B", "b"))
        await scene.settle()
        assert scene.losses == 2
        scene.sink.refuses = False
        scene.tell(CREATED, names=["c"])
        await scene.settle()
        assert scene.sink.messages() == ["Created pod: c"]

    in_virtual_time(story())


def test_the_events_of_a_namespace_do_not_wait_for_those_of_another():
    """Where a webhook does not answer, each write takes its time-out."""

    async def story():
        scene = Scene()
        dead = [replace(JOB, namespace=f"dead-{number}", uid=f"dead-{number}") for number in range(3)]
        for job in dead:
            scene.sink.slow_in[job.namespace] = 300
            scene.tell(*(Event(EventType.NORMAL, "Different", str(number)) for number in range(BURST)), job=job)
        await scene.settle()
        scene.tell(CREATED, names=["a"])
        await scene.settle()
        assert scene.sink.messages() == ["Created pod: a"]
        for job in dead:
            scene.tell(*(Event(EventType.NORMAL, "More", str(number)) for number in range(REMEMBERED)), job=job)
        scene.tell(CREATED, names=["b"])
        await scene.settle()
        assert scene.sink.messages() == ["Created pod: a", "Created pod: b"]
        scene.tell(CREATED, names=["last"])
        flushing = asyncio.ensure_future(scene.recorder.flush())
        await asyncio.sleep(0.1)
        assert scene.sink.messages()[2:] == ["Created pod: last"]
        await flushing

    in_virtual_time(story())


def test_flush_awaits_writes_in_progress():
    async def story():
        scene = Scene()
        scene.sink.slow = 0.5
        scene.tell(CREATED, names=["first"])
        await asyncio.sleep(AGGREGATION_SECONDS + 0.1)
        await scene.recorder.flush()
        assert scene.sink.messages() == ["Created pod: first"]
        scene.tell(CREATED, names=["last"])
        began = clock()
        await scene.recorder.flush()
        assert scene.sink.messages() == ["Created pod: first", "Created pod: last"]
        assert clock() - began < 1

    in_virtual_time(story())


def test_cancelled_writes_do_not_end_the_recorder():
    async def story():
        scene = Scene()
        scene.sink.slow = 5
        before = asyncio.all_tasks()
        scene.tell(CREATED, names=["lost"])
        await asyncio.sleep(AGGREGATION_SECONDS + 1)
        for task in asyncio.all_tasks() - before:
            task.cancel()
        scene.sink.slow = 0
        scene.tell(CREATED, names=["kept"])
        await scene.settle()
        assert scene.sink.messages() == ["Created pod: kept"]

    in_virtual_time(story())


def test_an_internal_error_is_raised():
    async def story():
        recorder = EventRecorder(object(), lambda: None, now)
        recorder.record(JOB, CREATED, ["a"])
        with pytest.raises(AttributeError):
            await recorder.flush()

    in_virtual_time(story())

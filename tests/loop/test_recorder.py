"""Events say what happened: gathered, counted, bounded, and never in anybody's way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hasty import clock, hastily
from make import a_job
from trainshed.api.actions import Note, Tone
from trainshed.cluster import Conflict, Denied, Missing
from trainshed.loop.recorder import BURST, EVERY, GATHER, LONGEST, SAME, Recorder

JOB = a_job(worker=2)


class Desk:
    """Takes Events in, as an API server would."""

    def __init__(self) -> None:
        self.events: dict[str, dict] = {}
        self.updates: list[dict] = []
        self.refuses = False
        self.slow = 0.0

    async def create_event(self, namespace: str, body: dict) -> None:
        await asyncio.sleep(self.slow)
        if self.refuses:
            raise Denied("no events here")
        assert body["metadata"]["namespace"] == namespace
        if body["metadata"]["name"] in self.events:
            raise Conflict(body["metadata"]["name"])
        self.events[body["metadata"]["name"]] = dict(body)

    async def update_event(self, _namespace: str, name: str, patch: dict) -> None:
        if name not in self.events:
            raise Missing(name)
        self.updates.append(patch)
        self.events[name].update(patch)

    def messages(self) -> list[str]:
        return [event["message"] for event in self.events.values()]


def created(name: str) -> Note:
    return Note(Tone.NORMAL, "SuccessfulCreatePod", f"Created pod: {name}")


class Scene:
    """A recorder at work."""

    def __init__(self, desk: Desk | None = None) -> None:
        self.desk, self.losses = desk or Desk(), 0
        self.recorder = Recorder(self.desk, self._lose)
        self.task = asyncio.create_task(self.recorder.run())

    def tell(self, *notes: Note, job=JOB) -> None:
        for note in notes:
            self.recorder.tell(job, note)

    async def settle(self) -> None:
        await asyncio.sleep(2 * GATHER + 0.1)
        assert not self.task.done()

    def _lose(self) -> None:
        self.losses += 1


def test_one_note_is_an_event_in_its_own_words_on_its_job():
    async def story():
        scene = Scene()
        scene.tell(created("mnist-worker-0"))
        await scene.settle()
        (event,) = scene.desk.events.values()
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

    hastily(story())


def test_notes_of_the_same_kind_are_gathered_into_one_event():
    async def story():
        scene = Scene()
        scene.tell(*(created(f"mnist-worker-{index}") for index in (10, 9, 1)))
        scene.tell(Note(Tone.WARNING, "FailedCreatePod", "Error creating: full"))
        await scene.settle()
        assert scene.desk.messages() == [
            "Created pod: mnist-worker-1, mnist-worker-9, mnist-worker-10",
            "Error creating: full",
        ]

    hastily(story())


def test_a_thousand_names_fit_into_a_message_and_it_says_how_many_they_are():
    async def story():
        scene = Scene()
        scene.tell(*(created(f"mnist-worker-{index}") for index in range(1000)))
        scene.tell(Note(Tone.WARNING, "Long", "ä" * 2000))
        await scene.settle()
        message, long = scene.desk.messages()
        assert message.startswith("Created pod: mnist-worker-0, mnist-worker-1,")
        assert message.endswith(" ... (1000 in all)")
        assert message.removesuffix(" ... (1000 in all)").rpartition("-")[2].isdecimal()
        assert len(message.encode()) <= LONGEST
        assert len(long.encode()) <= LONGEST

    hastily(story())


def test_the_same_words_again_raise_a_count_and_after_a_while_are_news():
    async def story():
        scene = Scene()
        note = Note(Tone.WARNING, "FailedCreatePod", "Error creating: full")
        scene.tell(note, note)
        await scene.settle()
        scene.tell(note)
        await scene.settle()
        (event,) = scene.desk.events.values()
        assert event["count"] == 3
        assert len(scene.desk.updates) == 1
        await asyncio.sleep(SAME)
        scene.tell(note)
        await scene.settle()
        assert len(scene.desk.events) == 2

    hastily(story())


def test_words_whose_event_the_server_has_forgotten_are_written_anew():
    async def story():
        scene = Scene()
        scene.tell(created("a"))
        await scene.settle()
        scene.desk.events.clear()
        scene.tell(created("a"))
        await scene.settle()
        assert scene.desk.messages() == ["Created pod: a"]

    hastily(story())


def test_what_lasts_is_told_once_for_each_job():
    async def story():
        scene = Scene()
        lasting = Note(Tone.WARNING, "SettedPodTemplateRestartPolicy", "it is overwritten", key="template")
        for _ in range(3):
            scene.tell(lasting)
            scene.tell(lasting, job=replace(JOB, uid="other"))
            await scene.settle()
        uids = [event["involvedObject"]["uid"] for event in scene.desk.events.values()]
        assert uids == ["job-uid", "other"]
        later = Scene(scene.desk)  # the process that comes after this one
        later.tell(replace(lasting, message="it is overwritten, still"), replace(lasting, key="another"))
        await later.settle()
        assert scene.desk.messages() == ["it is overwritten"] * 3
        assert (scene.losses, later.losses) == (0, 0)

    hastily(story())


def test_a_job_has_a_burst_of_events_and_then_one_now_and_then():
    async def story():
        scene = Scene()
        for number in range(BURST + 10):
            scene.tell(Note(Tone.NORMAL, "Different", f"number {number}"))
        await scene.settle()
        assert len(scene.desk.events) == BURST
        assert scene.losses == 10
        await asyncio.sleep(2 * EVERY + 1)
        for number in range(5):
            scene.tell(Note(Tone.NORMAL, "Later", f"number {number}"))
        await scene.settle()
        assert len(scene.desk.events) == BURST + 2

    hastily(story())


def test_a_refused_event_is_counted_and_nothing_else_happens():
    async def story():
        scene = Scene()
        scene.desk.refuses = True
        scene.tell(created("a"), Note(Tone.NORMAL, "B", "b"))
        await scene.settle()
        assert scene.losses == 2
        scene.desk.refuses = False
        scene.tell(created("c"))
        await scene.settle()
        assert scene.desk.messages() == ["Created pod: c"]

    hastily(story())


def test_a_flush_at_the_end_waits_for_what_is_being_written():
    async def story():
        scene = Scene()
        scene.desk.slow = 0.5
        scene.tell(created("first"))
        await asyncio.sleep(GATHER + 0.1)
        await scene.recorder.flush()
        assert scene.desk.messages() == ["Created pod: first"]
        scene.tell(created("last"))
        began = clock()
        await scene.recorder.flush()
        assert scene.desk.messages() == ["Created pod: first", "Created pod: last"]
        assert clock() - began < 1

    hastily(story())


def test_writes_that_are_broken_off_do_not_end_the_recorder():
    async def story():
        scene = Scene()
        scene.desk.slow = 5
        before = asyncio.all_tasks()
        scene.tell(created("lost"))
        await asyncio.sleep(GATHER + 1)
        for task in asyncio.all_tasks() - before:
            task.cancel()
        scene.desk.slow = 0
        scene.tell(created("kept"))
        await scene.settle()
        assert scene.desk.messages() == ["Created pod: kept"]

    hastily(story())


def test_an_error_of_our_own_is_not_kept_quiet():
    async def story():
        recorder = Recorder(object(), lambda: None)
        recorder.tell(JOB, created("a"))
        with pytest.raises(AttributeError):
            await recorder.flush()

    hastily(story())

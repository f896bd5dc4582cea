"""The log of the replica that leads is followed, and no other one, in bounds, and only of jobs that ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from support.builders import T0, a_job, event_reasons, plan_for, pods_of, replace, running
from support.pod_logs import PodLogs
from support.virtual_time import in_virtual_time
from support.world import World
from trainshed.api.framework import JobDefaults
from trainshed.api.job import ProgressSource
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.transport import RestClient, TransportError
from trainshed.controller import log_followers
from trainshed.controller.log_followers import LogFollowers
from trainshed.controller.namespaces import Controller, Scope
from trainshed.frameworks import FRAMEWORKS
from trainshed.local.tasks import LocalObserver

CONTAINER = {"name": "pytorch", "image": "x"}
ROLE = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [CONTAINER]}}}
SPEC = {"pytorchReplicaSpecs": {"Master": ROLE, "Worker": ROLE}}
LOGS = {"trainshed.dev/progress": "Logs"}


class Followed:
    """An operator on the server in memory, whose pods have logs that a test writes; all in virtual time."""

    def __init__(self, most: int = 1000) -> None:
        self.world, self._loop = World(), asyncio.get_running_loop()
        self._began = self._loop.time()
        self.logs = PodLogs(self.world.rest._transport)
        rest = RestClient(self.logs)
        client = ApiClient(rest, TokenBucket())
        scope = Scope(FRAMEWORKS, JobDefaults(progress_logs=True))
        self.controller = Controller(client, scope, LocalObserver(), self.now)
        self.followers = LogFollowers(rest, self.controller.recorder, self.now, most)
        self.cache = self.controller.caches.all[""].cache
        reconciler = self.controller.caches.all[""].reconciler
        reconciler.watchers.append(lambda snapshot: self.followers.saw(self.cache, snapshot))
        runs = (self.controller.recorder.run, *(informer.run for informer in self.controller.informers))
        self._tasks = [self._loop.create_task(run()) for run in runs]
        self._tasks.append(self._loop.create_task(self.controller.run(lambda: asyncio.sleep(0))))

    def now(self):
        self.world.now = T0 + timedelta(seconds=self._loop.time() - self._began)
        return self.world.now

    async def start(self, *names: str, annotations: dict | None = None) -> None:
        """Create jobs whose pods run."""
        for name in names:
            self.world.submit("PyTorchJob", name, SPEC, LOGS if annotations is None else annotations)
        await asyncio.sleep(5)
        for name in self.world.pods:
            self.world.set_pod(name, "Running")
        await asyncio.sleep(5)

    async def say(self, pod: str, text: str, seconds: float = 6) -> None:
        self.logs.of(pod).put_nowait(text.encode())
        await asyncio.sleep(seconds)

    async def finish(self, pod: str, seconds: float = 30) -> None:
        """End the log of a pod first and then the pod, as a kubelet does."""
        self.logs.end(pod)
        await asyncio.sleep(0.5)
        self.world.set_pod(pod, "Succeeded")
        await asyncio.sleep(seconds)

    def status(self, name: str = "a") -> dict:
        return self.world.get("pytorchjobs", name)["status"]

    def events(self) -> list[str]:
        return [event["reason"] for event in self.world.server.objects("events")]

    async def end(self) -> None:
        self.followers.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def played(story: Callable[[Followed], Coroutine[Any, Any, None]], most: int = 1000) -> None:
    async def play() -> None:
        followed = Followed(most)
        await story(followed)
        await followed.end()

    in_virtual_time(play())


def test_what_the_log_of_the_master_says_is_in_the_status_to_the_last_line():
    async def story(it: Followed) -> None:
        await it.start("a")
        await it.start("quiet", annotations={})
        assert it.logs.opened == [
            ("a-master-0", {"container": "pytorch", "tailLines": "10", "timestamps": "true", "follow": "true"})
        ]
        await it.say("a-master-0", "starts\nstep 10/100 loss=0.5\nstep 2", 20)
        assert it.status()["trainerStatus"]["step"] == 10
        await it.say("a-master-0", "0/100 loss=\xff0.4\r", 20)
        assert it.status()["trainerStatus"] | {"lastUpdatedTime": ""} == {
            "progressPercentage": 20,
            "estimatedRemainingSeconds": it.status()["trainerStatus"]["estimatedRemainingSeconds"],
            "metrics": [{"name": "loss", "value": "0.5"}],
            "lastUpdatedTime": "",
            "step": 20,
            "totalSteps": 100,
            "stepsPerSecond": 0.5,
        }
        await it.say("a-master-0", "step 100/100 loss=0.1", 0)
        await it.finish("a-master-0")
        status = it.status()
        assert (status["state"], status["trainerStatus"]["step"], status["progress"]) == ("Succeeded", 100, "100%")
        assert [query.get("follow") for _, query in it.logs.opened] == ["true", None]
        assert it.logs.open == 0
        assert "trainerStatus" not in it.status("quiet")

    played(story)


def test_a_log_that_breaks_off_is_opened_again_later_and_later_and_lines_that_come_again_change_nothing():
    async def story(it: Followed) -> None:
        await it.start("a")
        await it.say("a-master-0", "step 10/100 loss=0.5\n")
        times = []
        for _ in range(9):
            await it.say("a-master-0", "step 20/100 loss=0.5\n", 0)
            it.logs.of("a-master-0").put_nowait(TransportError("silence"))
            count = len(it.logs.opened)
            while len(it.logs.opened) == count:
                await asyncio.sleep(0.25)
            times.append(it.now())
            await it.say("a-master-0", "step 19/100 loss=0.5\n", 0)
        gaps = [(after - before).total_seconds() for before, after in pairwise(times)]
        assert (gaps[0] < 5, 29 < gaps[-1] <= 61) == (True, True)
        assert "sinceTime" in it.logs.opened[-1][1]
        await it.say("a-master-0", "step 30/100 loss=0.5\n", 20)
        assert it.status()["trainerStatus"]["step"] == 30
        assert it.logs.most_open == 1

    played(story)


def test_lines_that_come_again_after_silence_are_no_news_and_the_log_goes_on_after_the_last_one():
    async def story(it: Followed) -> None:
        def line(step: int) -> str:
            return f"{it.now().isoformat()} step {step}/100 loss={step}\n"

        await it.start("a")
        lines = line(10)
        await it.say("a-master-0", lines, 20)
        lines += line(20)
        await it.say("a-master-0", lines.splitlines(keepends=True)[1], 80)
        known = it.status()["trainerStatus"]
        assert (known["step"], known["metrics"]) == (20, [{"name": "loss", "value": "20"}])
        it.logs.of("a-master-0").put_nowait(TransportError("silence"))
        await it.say("a-master-0", lines, 100)
        assert it.status()["trainerStatus"] == known
        assert it.logs.opened[-1][1]["sinceTime"] == lines.split()[4].replace("+00:00", "Z")
        await it.say("a-master-0", line(30), 20)
        assert it.status()["trainerStatus"]["step"] == 30

    played(story)


@pytest.mark.parametrize("before", [0, 8], ids=["once", "until it waits for a minute"])
def test_what_a_log_says_after_it_broke_off_is_read_when_the_pod_ends_before_it_is_opened_again(before):
    async def story(it: Followed) -> None:
        await it.start("a")
        await it.say("a-master-0", "step 10 loss=0.5\n")
        for _ in range(before):
            count = len(it.logs.opened)
            it.logs.of("a-master-0").put_nowait(TransportError("silence"))
            while len(it.logs.opened) == count:
                await asyncio.sleep(0.25)
        it.logs.of("a-master-0").put_nowait(TransportError("silence"))
        await asyncio.sleep(0)
        opened = len(it.logs.opened)
        await it.say("a-master-0", "step 100 loss=0.1\nbye\n", 0)
        it.logs.ended.add("a-master-0")
        it.world.set_pod("a-master-0", "Succeeded")
        await asyncio.sleep(2)
        ((_, last),) = it.logs.opened[opened:]
        assert (last.keys(), it.logs.open) == ({"container", "tailLines", "timestamps", "limitBytes", "sinceTime"}, 0)
        await asyncio.sleep(30)
        assert (it.status()["trainerStatus"]["step"], it.status()["progress"]) == (100, "step 100")

    played(story)


def test_a_kubelet_that_does_not_end_the_log_of_an_ended_pod_is_not_awaited():
    async def story(it: Followed) -> None:
        await it.start("a")
        await it.say("a-master-0", "step 10 loss=0.5\n")
        it.logs.of("a-master-0").put_nowait(TransportError("silence"))
        it.world.set_pod("a-master-0", "Succeeded")
        await it.say("a-master-0", "step 11 loss=0.5\n", 20)
        assert it.logs.open == 1
        await it.say("a-master-0", "step 12 loss=0.5\n", 20)
        assert (it.logs.open, it.status()["trainerStatus"]["step"]) == (0, 12)

    played(story)


def test_no_more_logs_are_followed_than_the_flag_says_and_the_others_get_their_turn():
    async def story(it: Followed) -> None:
        await it.start("a", "b", "c")
        assert (it.logs.open, it.events().count("ProgressLogsWait")) == (2, 1)
        first = it.logs.opened[0][0]
        await it.finish(first)
        assert {pod for pod, _ in it.logs.opened} == {"a-master-0", "b-master-0", "c-master-0"}
        assert it.logs.most_open == 2
        it.followers.stop()
        await asyncio.sleep(1)
        assert it.logs.open == 0

    played(story, most=2)


def test_a_missing_right_is_said_once_and_tried_again_after_minutes():
    async def story(it: Followed) -> None:
        it.logs.refusal = 403
        await it.start("a")
        await asyncio.sleep(1300)
        assert len(it.logs.opened) == 3
        assert it.events().count("ProgressLogsForbidden") == 1

    played(story)


@pytest.mark.parametrize(("limit", "value"), [("MAX_ALL_LINES", 30), ("MAX_SECONDS", 0.0)])
def test_of_a_log_that_says_too_much_the_end_is_read_from_time_to_time(monkeypatch, limit, value):
    async def story(it: Followed) -> None:
        monkeypatch.setattr(log_followers, limit, value)
        await it.start("a")
        text = "".join(f"step {step}/9999 loss=0.5 {'x' * 200}\n" for step in range(400))
        for _ in range(20):
            await it.say("a-master-0", text, 3)
        assert 3 <= len(it.logs.opened) <= 7
        assert it.status()["trainerStatus"]["step"] == 399

    played(story)


def test_a_job_that_reports_by_its_logs_has_an_event_if_the_operator_lacks_the_flag():
    job = replace(a_job("PyTorchJob", master=1), progress=ProgressSource.LOGS)
    plans = [
        plan_for(one, *pods_of(one), status=running(one), job_defaults=JobDefaults(progress_logs=enabled))
        for one, enabled in ((job, False), (job, True), (replace(job, progress=ProgressSource.ENDPOINT), False))
    ]
    assert ["ProgressLogsDisabled" in event_reasons(found) for found in plans] == [True, False, False]

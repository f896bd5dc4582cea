"""Reports of trainings cost at most one write of a status in 15 seconds, and say how fast steps follow."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from support.builders import T0, a_job, at
from support.replace import replace
from support.virtual_time import in_virtual_time
from support.world import World
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.signs import Steps
from trainshed.api.training import trainer_status
from trainshed.controller import training_reports
from trainshed.controller.namespaces import Controller, Scope
from trainshed.controller.training_reports import TrainingReports
from trainshed.frameworks import FRAMEWORKS
from trainshed.local.tasks import LocalObserver

KEY = JobKey("ml", "PyTorchJob", "mnist")
CONTAINER = {"name": "pytorch", "image": "x"}
SPEC = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [CONTAINER]}}}}}


def report(second, step):
    return trainer_status(at(second), step=step)


@pytest.mark.parametrize(
    ("total", "hangs", "ends", "expected"),
    [
        (100, False, False, [0, 15, 30, 45]),
        (None, False, False, [0, 60]),
        (None, True, False, [0, 15, 30, 45]),
        (None, False, True, [0, 36]),
    ],
    ids=("seen", "not-seen", "that-may-hang", "that-ends"),
)
def test_a_job_is_woken_at_once_then_if_tables_show_more_and_the_last_report_is_not_missed(
    total, hangs, ends, expected
):
    async def story() -> list[float]:
        woken, clock = [], asyncio.get_running_loop().time
        reports = TrainingReports(lambda _key: woken.append(clock() - began))
        if hangs:
            reports.signs(replace(a_job("PyTorchJob", master=1), uid="u", hang_deadline=60), at(0))
        began = clock()
        for second in range(0, 33, 4):
            reports.report(KEY, "u", trainer_status(at(second), step=second, total_steps=total))
            await asyncio.sleep(4)
        if ends:
            reports.ended(KEY, "u")
        await asyncio.sleep(99)
        reports.report(KEY, "u", trainer_status(at(200), step=32, total_steps=total))  # says nothing new
        reports.ended(KEY, "u")
        await asyncio.sleep(99)
        return woken

    assert [round(second) for second in in_virtual_time(story())] == expected


def test_the_time_of_a_step_is_that_of_most_and_begins_again_with_another_pod():
    async def story() -> None:
        reports = TrainingReports(lambda _key: None)
        assert (reports.of("u"), reports.pod("u"), reports.steps("u")) == (None, "", None)
        for second, step in [(0, 10), (20, 30), (40, 50), (340, 60), (345, 60), (360, 80)]:
            reports.report(KEY, "u", report(second, step), ("mnist-master-0", "uid-0"))
        assert reports.steps("u") == Steps(at(360), 80, 1, 20)
        reports.report(KEY, "u", report(400, None), ("mnist-master-0", "uid-0"))
        assert (reports.steps("u"), reports.of("u"), reports.pod("u")) == (
            Steps(at(360), 80, 1, 20),
            replace(report(400, None), steps_per_second=1.0, first_step=10, began=at(0)),
            "mnist-master-0",
        )
        reports.report(KEY, "u", report(500, 80), ("mnist-master-0", "uid-1"))
        assert (reports.steps("u"), reports.of("u").began) == (None, at(500))
        assert (reports.of("u").left_step, reports.of("u").left) == (80, at(360))
        reports.report(KEY, "u", report(510, 5), ("mnist-master-0", "uid-1"))
        assert (reports.steps("u"), reports.of("u").began) == (None, at(510))
        reports.forget("u")
        reports.forget("u")
        assert reports.of("u") is None
        await asyncio.sleep(60)

    in_virtual_time(story())


def test_the_steps_of_one_of_several_ranks_that_report_are_counted():
    async def story() -> None:
        woken = []
        reports = TrainingReports(woken.append)
        for second in range(0, 101, 20):
            for rank in (2, 0, 1):  # rank 2 leads, and each is a little later, and behind it
                reports.report(KEY, "u", report(second + 2 - rank, 10 * second + rank), (f"w-{rank}", f"uid-{rank}"))
        assert reports.steps("u") == Steps(at(100), 1002, 0.1, 20)
        assert (reports.of("u").step, reports.of("u").left_step, reports.pod("u")) == (1002, None, "w-2")
        # The pod that leads is replaced: its steps begin again, whatever the others report.
        reports.report(KEY, "u", report(110, 900), ("w-0", "uid-0"))
        reports.report(KEY, "u", report(200, 902), ("w-2", "uid-3"))
        reports.report(KEY, "u", report(201, 900), ("w-0", "uid-4"))
        assert (reports.of("u").first_step, reports.of("u").left_step, reports.of("u").left) == (902, 1002, at(100))
        await asyncio.sleep(60)

    in_virtual_time(story())


@pytest.mark.parametrize(
    ("steps", "expected"),
    [((110, 120, 130), (10, None)), ((50, 60, 70), (50, 100)), ((None, None, None), (10, None))],
    ids=("goes-on", "from-a-checkpoint", "without-steps"),
)
def test_another_rank_leads_when_the_one_that_led_is_silent_for_three_reports(steps, expected):
    async def story() -> None:
        reports = TrainingReports(lambda _key: None)
        for second, step in ((0, 10), (20, 100)):
            reports.report(KEY, "u", report(second, step), ("w-0", "uid-0"))
        for second, step in zip((100, 120), steps[:2], strict=True):
            reports.report(KEY, "u", report(second, step), ("w-1", "uid-1"))
        assert (reports.pod("u"), reports.of("u").step) == ("w-0", 100)
        reports.report(KEY, "u", report(140, steps[2]), ("w-1", "uid-1"))
        last = reports.of("u")
        assert (reports.pod("u"), last.step, last.first_step, last.left_step) == ("w-1", steps[2], *expected)
        await asyncio.sleep(60)

    in_virtual_time(story())


def test_a_pod_that_was_replaced_meanwhile_does_not_lead_by_the_reports_of_both():
    async def story() -> None:
        reports = TrainingReports(lambda _key: None)
        reports.report(KEY, "u", report(0, 10), ("w-0", "uid-0"))
        for second, run in ((1, "1"), (2, "1"), (3, "2"), (4, "2")):
            reports.report(KEY, "u", report(second, 20 + second), ("w-1", run))
        assert reports.pod("u") == "w-0"
        reports.report(KEY, "u", report(5, 30), ("w-1", "2"))
        assert reports.pod("u") == "w-1"
        await asyncio.sleep(60)

    in_virtual_time(story())


def test_the_jobs_that_have_not_reported_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(training_reports, "MAX_JOBS", 2)

    async def story() -> list[bool]:
        reports = TrainingReports(lambda _key: None)
        for second, uid in enumerate("abac"):
            reports.report(KEY, uid, report(second, second))
        return [reports.of(uid) is not None for uid in "abc"]

    assert in_virtual_time(story()) == [True, False, True]


def test_a_job_that_reports_every_5_seconds_has_one_write_in_15_and_one_that_does_not_has_none():
    async def story() -> dict[str, int]:
        world, loop = World(), asyncio.get_running_loop()
        began = loop.time()

        def now():
            return T0 + timedelta(seconds=loop.time() - began)

        world.submit("PyTorchJob", "mnist", SPEC, {"trainshed.dev/progress": "Logs"})
        world.submit("PyTorchJob", "quiet", SPEC)
        reconciles, observer = [], LocalObserver()
        observer.on_reconcile = lambda snapshot: reconciles.append(snapshot.job.name)
        controller = Controller(world.client, Scope(FRAMEWORKS, JobDefaults()), observer, now)
        tasks = [loop.create_task(informer.run()) for informer in controller.informers]
        tasks.append(loop.create_task(controller.run(lambda: asyncio.sleep(0))))
        await asyncio.sleep(5)
        for pod in list(world.pods):
            world.set_pod(pod, "Running")
        await asyncio.sleep(10)
        world.writes.clear()
        reconciles.clear()
        cache = controller.caches.all[""].cache
        uid = world.get("pytorchjobs")["metadata"]["uid"]
        for step in range(60):
            world.now = now()
            cache.training.report(KEY, uid, trainer_status(now(), step=step, total_steps=100))
            await asyncio.sleep(5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        status = world.get("pytorchjobs")["status"]
        assert (status["trainerStatus"]["step"], status["progress"]) == (59, "59%")
        assert reconciles.count("quiet") == 0
        assert reconciles.count("mnist") == 21 + 2, "a stored report causes none, but for when the programs had started"
        return {name: world.writes.count(name) for name in set(world.writes)}

    assert in_virtual_time(story()) == {"status mnist": 21}, "from 0 to 300 s"

"""The worker survives every outcome of a reconcile, and no job is forgotten."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from support.virtual_time import clock, in_virtual_time, now
from trainshed.api.job import JobKey
from trainshed.client import Altered, Forbidden, PreviousJobTerminating, StatusRejected, Unavailable
from trainshed.controller.job_errors import AFTER_ERROR, AFTER_NO
from trainshed.controller.metrics import Metrics
from trainshed.controller.reconciler import Result
from trainshed.controller.workqueue import Worker, WorkQueue

A, B = (JobKey("ml", "TFJob", name) for name in "ab")
FULL, PARTLY = Forbidden("full", "QuotaExceeded"), "created 1 of 2 pods"


class FakeReconciler:
    """A reconciler with outcomes that the test defines; records when each reconcile started."""

    def __init__(self, outcome: Callable[[JobKey], Result]) -> None:
        self.outcome = outcome
        self.seconds = 0.0
        self.at: list[float] = []
        self.keys: list[JobKey] = []

    async def reconcile(self, key: JobKey, _now: datetime) -> Result:
        self.at.append(clock())
        self.keys.append(key)
        await asyncio.sleep(self.seconds)
        return self.outcome(key)


class Scene:
    def __init__(self, outcome: Callable[[JobKey], Result] = lambda _key: Result()) -> None:
        self.reconciler, self.queue, self.acts = FakeReconciler(outcome), WorkQueue(lambda _seconds: None), True
        self.metrics = Metrics()
        self.worker = Worker(self.queue, {"": self.reconciler}, self.metrics, lambda: self.acts, now)
        self.task = asyncio.create_task(self.worker.run())

    def errors(self, error: Exception) -> float | None:
        labels = {"error": type(error).__name__}
        return self.metrics.registry.get_sample_value("trainshed_reconcile_errors_total", labels)

    def gaps(self) -> list[float]:
        return [round(late - early, 1) for early, late in zip(self.reconciler.at, self.reconciler.at[1:], strict=False)]


def raises(error: Exception) -> Callable[[JobKey], Result]:
    def outcome(_key: JobKey) -> Result:
        raise error

    return outcome


def test_each_job_is_reconciled_by_the_reconciler_of_its_namespace():
    async def story():
        own, other, queue = (
            FakeReconciler(lambda _key: Result()),
            FakeReconciler(lambda _key: Result()),
            WorkQueue(lambda _seconds: None),
        )
        worker = Worker(queue, {"ml": own, "": other}, Metrics(), lambda: True, now)
        task = asyncio.create_task(worker.run())
        elsewhere = JobKey("elsewhere", "TFJob", "a")
        queue.add(A)
        queue.add(elsewhere)
        await asyncio.sleep(0.1)
        assert (own.keys, other.keys) == ([A], [elsewhere])
        task.cancel()

    in_virtual_time(story())


def test_many_jobs_are_reconciled_concurrently_and_each_by_one_worker():
    async def story():
        scene = Scene()
        scene.reconciler.seconds = 1
        for _ in range(3):
            scene.queue.add(A)
            scene.queue.add(B)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.9)
        assert sorted(scene.reconciler.keys) == [A, B]
        await asyncio.sleep(1)
        assert sorted(scene.reconciler.keys) == [A, A, B, B], "an event during a reconcile causes one more"

    in_virtual_time(story())


def test_the_next_reconcile_starts_at_the_requested_time():
    async def story():
        scene = Scene(lambda _key: Result(now() + timedelta(seconds=30)))
        scene.queue.add(A)
        await asyncio.sleep(61)
        assert scene.gaps() == [30.0, 30.0]

    in_virtual_time(story())


def test_a_time_due_during_a_failing_reconcile_does_not_wait_for_the_back_off():
    async def story():
        due = now() + timedelta(seconds=1.9)  # the second reconcile starts after 1.6 s and ends after 2.2 s
        refused = Forbidden("full", "QuotaExceeded")
        scene = Scene(lambda _key: Result(due if len(scene.reconciler.at) <= 2 else None, error=refused))
        scene.reconciler.seconds = 0.6
        scene.queue.add(A)
        await asyncio.sleep(10)
        assert scene.gaps()[:3] == [1.6, 0.6, 3.8], "the back-off continues after the reconcile that was due"

    in_virtual_time(story())


@pytest.mark.parametrize(
    ("error", "first", "longest"),
    [(Forbidden("full", "QuotaExceeded"), *AFTER_NO), (Unavailable("gone"), *AFTER_ERROR)],
)
def test_errors_increase_the_back_off(error, first, longest, caplog):
    async def story():
        scene = Scene(lambda _key: Result(error=error))
        scene.queue.add(A)
        await asyncio.sleep(120)
        gaps = scene.gaps()
        assert gaps[:3] == pytest.approx([first, 2 * first, 4 * first], abs=0.1)
        assert max(gaps) == pytest.approx(longest, abs=0.1)
        assert scene.errors(error) == len(scene.reconciler.at)

    in_virtual_time(story())
    assert f"TFJob ml/a: {error.reason}: {error}; retrying in at most {first:.1f} s" in caplog.messages
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize("gone", [False, True])
def test_an_error_of_a_job_that_is_gone_by_now_is_no_warning(caplog, gone):
    def outcome(key: JobKey) -> Result:
        if gone:
            scene.queue.left(key)
        return Result(error=Forbidden("serviceaccount not found"))

    async def story():
        nonlocal scene
        scene = Scene(outcome)
        scene.queue.add(A)
        await asyncio.sleep(0.05)
        scene.reconciler.outcome = lambda _key: Result()
        await asyncio.sleep(10)

    scene: Scene
    in_virtual_time(story())
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == (not gone)


def test_an_unexpected_error_is_logged_with_its_traceback_and_the_worker_continues(caplog):
    async def story():
        scene = Scene(raises(ZeroDivisionError("oh")))
        scene.queue.add(A)
        await asyncio.sleep(0.05)
        scene.reconciler.outcome = lambda _key: Result()
        scene.queue.add(B)
        await asyncio.sleep(1)
        assert not scene.task.done()
        assert scene.reconciler.keys == [A, B, A]
        assert scene.metrics.registry.get_sample_value("trainshed_internal_errors_total") == 1

    in_virtual_time(story())
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "TFJob ml/a" in record.getMessage()
    assert record.exc_info[0] is ZeroDivisionError


def test_an_outcome_is_one_log_line_and_an_empty_one_is_none(caplog):
    caplog.set_level(logging.INFO)

    async def story():
        scene = Scene(lambda key: Result(message="Running=True, created 2 pods" if key == A else ""))
        scene.queue.add(A)
        scene.queue.add(B)
        await asyncio.sleep(1)

    in_virtual_time(story())
    assert [message for message in caplog.messages if "TFJob" in message] == [
        "TFJob ml/a: Running=True, created 2 pods"
    ]


@pytest.mark.parametrize(
    ("result", "level", "line"),
    [
        (Result(error=FULL), "WARNING", "QuotaExceeded: full; retrying in at most 1.0 s"),
        (Result(error=FULL, message=PARTLY), "WARNING", f"{PARTLY}: QuotaExceeded: full; retrying in at most 1.0 s"),
        (Result(error=FULL, message=PARTLY, known=True), "INFO", f"{PARTLY}: QuotaExceeded: full; retrying in at most"),
        (Result(error=FULL, known=True), "DEBUG", "QuotaExceeded: full; retrying in at most 1.0 s"),
    ],
)
def test_what_was_done_and_what_failed_are_one_line(caplog, result, level, line):
    caplog.set_level(logging.DEBUG)

    async def story():
        scene = Scene(lambda _key: result)
        scene.queue.add(A)
        await asyncio.sleep(0.5)

    in_virtual_time(story())
    (record,) = [record for record in caplog.records if "TFJob" in record.getMessage()]
    assert record.levelname == level
    assert record.getMessage().startswith(f"TFJob ml/a: {line}")


def test_a_change_of_the_job_shortens_the_back_off_that_the_log_tells():
    async def story():
        scene = Scene(lambda _key: Result(error=FULL))
        scene.queue.add(A)
        await asyncio.sleep(0.1)
        scene.queue.add(A)
        await asyncio.sleep(0.1)
        assert len(scene.reconciler.at) == 2
        assert scene.gaps()[0] < AFTER_NO[0]

    in_virtual_time(story())


def test_events_do_not_end_the_back_off_after_a_pod_that_a_webhook_has_altered():
    """Each try makes a pod that is deleted again, and so events."""

    async def story():
        scene = Scene(lambda _key: Result(error=Altered("another name")))
        for _ in range(120):
            scene.queue.add(A)
            await asyncio.sleep(1)
        assert len(scene.reconciler.at) <= 12

    in_virtual_time(story())


@pytest.mark.parametrize("error", [Unavailable("gone"), FULL, StatusRejected("no")], ids=lambda error: error.reason)
def test_events_end_a_long_back_off_once_a_second_at_most(error):
    async def story():
        scene = Scene(lambda _key: Result(error=error))
        for _ in range(6000):
            scene.queue.add(A)
            await asyncio.sleep(0.01)
        assert 55 <= len(scene.reconciler.at) <= 70

    in_virtual_time(story())


def test_a_reconcile_whose_status_waits_is_no_success_and_the_same_error_is_one_warning(caplog):
    def outcome(_key):
        number = len(scene.reconciler.at)
        if number % 2:
            return Result(error=Unavailable(f"500: dial tcp 10.0.0.1:{number}: connection refused"))
        return Result(now() + timedelta(seconds=0.3), waits=True)

    async def story():
        nonlocal scene
        scene = Scene(outcome)
        scene.queue.add(A)
        await asyncio.sleep(120)
        assert len(scene.reconciler.at) < 50
        assert len(caplog.messages) == 1
        scene.reconciler.outcome = lambda _key: Result()
        await asyncio.sleep(10)
        scene.reconciler.outcome = outcome
        scene.queue.add(A)
        await asyncio.sleep(1)
        assert len(caplog.messages) == 2, "after a success it is news"

    caplog.set_level(logging.WARNING)
    scene = None
    in_virtual_time(story())


def test_a_standby_reconciles_nothing():
    async def story():
        scene = Scene()
        scene.acts = False
        scene.queue.add(A)
        await asyncio.sleep(1)
        assert scene.task.done()
        assert scene.reconciler.keys == []
        scene.acts = True
        scene.queue.add(A)
        again = asyncio.create_task(scene.worker.run())
        await asyncio.sleep(1)
        assert scene.reconciler.keys == [A]
        again.cancel()

    in_virtual_time(story())


def test_a_cancelled_reconcile_is_requeued():
    async def story():
        scene = Scene()
        scene.reconciler.seconds = 5
        scene.queue.add(A)
        await asyncio.sleep(1)
        scene.worker.break_off()
        await asyncio.sleep(1)
        assert scene.reconciler.keys == [A, A]

    in_virtual_time(story())


def test_at_shutdown_reconciles_have_a_limited_time_to_finish():
    async def story(seconds):
        scene = Scene()
        scene.reconciler.seconds = seconds
        scene.queue.add(A)
        await asyncio.sleep(0.5)
        scene.task.cancel()
        began = clock()
        finished = await scene.worker.finish(10)
        waited = clock() - began
        await scene.worker.give_up()
        assert clock() - began == waited
        assert await scene.worker.finish(10)
        return finished, waited

    assert in_virtual_time(story(3)) == (True, pytest.approx(2.5))
    assert in_virtual_time(story(60)) == (False, pytest.approx(10))


def test_reconciles_are_measured():
    async def story():
        scene = Scene()
        scene.queue.add(A)
        await asyncio.sleep(1)
        assert b"trainshed_reconcile_duration_seconds_count 1.0" in scene.metrics.text()

    in_virtual_time(story())


def test_a_requested_time_does_not_shorten_the_back_off():
    async def story():
        scene = Scene(lambda _key: Result(now(), error=StatusRejected("no")))
        scene.queue.add(A)
        await asyncio.sleep(1000)
        assert scene.gaps()[:3] == pytest.approx([1, 2, 4], abs=0.1)
        assert len(scene.reconciler.at) < 20

    in_virtual_time(story())


@pytest.mark.parametrize(
    "result",
    [
        Result(error=StatusRejected("no"), known=True),
        Result(error=PreviousJobTerminating("waiting for pod a-worker-0")),
    ],
)
def test_a_known_error_is_not_a_second_warning_and_a_normal_wait_is_none(result, caplog):
    caplog.set_level(logging.INFO)

    async def story():
        scene = Scene(lambda _key: result)
        scene.queue.add(A)
        await asyncio.sleep(10)

    in_virtual_time(story())
    assert caplog.messages == []

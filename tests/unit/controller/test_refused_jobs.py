"""Jobs that a quota refuses cost little, and are tried at once when there may be room; a tenant causes no storm."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import pairwise

import pytest

from support.virtual_time import clock, in_virtual_time, now
from trainshed.api.job import JobKey
from trainshed.client import Forbidden
from trainshed.controller.job_errors import AFTER_REFUSAL
from trainshed.controller.metrics import Metrics
from trainshed.controller.refused_jobs import TRIES
from trainshed.controller.result import Result
from trainshed.controller.workqueue import Worker, WorkQueue

FULL = Forbidden("exceeded quota", "QuotaExceeded")


class Quota:
    """A namespace with this many jobs of one pod each, and `room` for so many; `tried` says when which was tried."""

    def __init__(self, number: int) -> None:
        self.room, self.tried = 0, []
        self.waiting = [JobKey("ml", "TFJob", f"job-{index}") for index in range(number)]
        self.queue = WorkQueue(lambda _seconds: None)
        worker = Worker(self.queue, {"": self}, Metrics(), lambda: True, now)
        self.task = asyncio.create_task(worker.run())
        for key in self.waiting:
            self.queue.add(key)

    async def reconcile(self, key: JobKey, _now: datetime) -> Result:
        self.tried.append((clock(), key))
        await asyncio.sleep(0.01)
        if key not in self.waiting:
            return Result()
        if not self.room:
            return Result(error=FULL, blocked=True, known=True)
        self.room -= 1
        self.waiting.remove(key)
        return Result(message="created 1 pod")

    async def count(self, seconds: float) -> int:
        """Return how many tries there are in these seconds."""
        before = len(self.tried)
        await asyncio.sleep(seconds)
        return len(self.tried) - before


def test_the_back_off_of_a_refused_job_grows_to_minutes():
    async def story():
        quota = Quota(1)
        assert await quota.count(3600) <= 20
        times = [at for at, _ in quota.tried]
        assert times[-1] - times[-2] == pytest.approx(AFTER_REFUSAL[1], abs=0.1)
        assert all(later - early <= early + 1.1 for early, later in pairwise(times)), (
            "never longer than it has been refused already"
        )

    in_virtual_time(story())


@pytest.mark.parametrize("number", [1, 3, 300])
def test_a_refused_job_is_tried_at_once_when_a_pod_of_its_namespace_is_gone(number):
    async def story():
        quota = Quota(number)
        await asyncio.sleep(1000)
        quota.queue.freed("other")
        assert await quota.count(0.1) <= number // 100, "nothing of another namespace"
        began, quota.room = clock(), 1
        quota.queue.freed("ml")
        await asyncio.sleep(0.1)
        assert len(quota.waiting) == number - 1
        assert quota.tried[-1][0] - began < 0.1
        quota.room = 0
        usual = 20 * number / AFTER_REFUSAL[1]
        assert await quota.count(20) <= TRIES + 1 + 2 * usual

    in_virtual_time(story())


def test_room_that_a_quota_counts_late_is_used_soon():
    async def story():
        quota = Quota(1)
        await asyncio.sleep(1000)
        quota.queue.freed("ml")
        await asyncio.sleep(5)
        quota.room = 1
        await asyncio.sleep(5)
        assert quota.waiting == []

    in_virtual_time(story())


def test_pods_that_end_all_the_time_cause_one_try_a_second():
    async def story():
        quota = Quota(300)
        await asyncio.sleep(2000)
        usual, before = await quota.count(300), len(quota.tried)
        for _ in range(3000):
            quota.queue.freed("ml")
            await asyncio.sleep(0.1)
        tried = [key for _, key in quota.tried[before:]]
        assert usual <= 310
        assert usual < len(tried) <= usual + 310
        assert len(set(tried)) == 300, "each in its turn"

    in_virtual_time(story())


def test_jobs_that_are_suspended_all_the_time_cause_one_try_a_second_of_the_others():
    async def story():
        quota = Quota(300)
        await asyncio.sleep(2000)
        usual, key, before = await quota.count(60), quota.waiting[0], len(quota.tried)
        for _ in range(600):
            quota.queue.went_well(key)
            quota.queue.refused(key, progressed=False)
            await asyncio.sleep(0.1)
        assert len(quota.tried) - before <= usual + 70

    in_virtual_time(story())


def test_of_many_refused_jobs_those_that_have_room_get_it_soon():
    async def story():
        quota = Quota(300)
        await asyncio.sleep(2000)
        quota.room = 200
        quota.queue.freed("ml")
        await asyncio.sleep(3)
        assert len(quota.waiting) == 100
        assert await quota.count(20) <= 2 * TRIES + 40

    in_virtual_time(story())


def test_a_job_that_has_got_a_part_of_its_pods_is_tried_before_others():
    async def story():
        queue = WorkQueue(lambda _seconds: None)
        first, second = (JobKey("ml", "TFJob", name) for name in "ab")
        queue.refused(first, progressed=True)
        queue.refused(second, progressed=False)
        queue.freed("ml")
        assert await queue.take() == first
        queue.refused(first, progressed=True)
        queue.done(first)
        assert await queue.take() == first
        queue.refused(first, progressed=False)
        assert await queue.take() == second
        queue.clear()
        queue.freed("ml")
        assert len(queue) == 0

    in_virtual_time(story())

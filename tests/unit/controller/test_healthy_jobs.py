"""Whole trainings, from their reports to the condition Stalled: healthy ones never have it, those that hang in time."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.builders import a_job, at, pods_of, replace, run_policy, running, seen
from support.virtual_time import in_virtual_time
from trainshed.api.job import JobKey
from trainshed.api.signs import Signs
from trainshed.api.status import ConditionType
from trainshed.api.training import trainer_status
from trainshed.controller.training_reports import TrainingReports
from trainshed.plan import plan

MINUTE = 60
JOB = a_job("PyTorchJob", master=1, worker=3, hang_deadline=10 * MINUTE)
KEY = JobKey("ml", "PyTorchJob", "mnist")
#: Seconds between two reconciles, and the end of a story.
TICK, END = 30, 200 * MINUTE

#: Reports: when, and the step or None.
Story = list[tuple[float, int | None]]


def even(begin: float, end: float, every: float, *, steps: int = 1, first: int = 0) -> Story:
    """Reports in equal distances, each so many steps after the one before."""
    count = int((end - begin) / every)
    return [(begin + number * every, first + number * steps) for number in range(count)]


def with_pauses(step: float, steps: int, pause: float) -> Story:
    """Steps of so many seconds, with a pause after so many steps."""
    found, time, number = [], 0.0, 0
    while time < END:
        time += step + (pause if number and number % steps == 0 else 0)
        found.append((time, number))
        number += 1
    return found


def bursts() -> Story:
    """A progress bar, of which the log shows 180 states at a time; reports are 5 s apart."""
    return [(time + late, step + late) for time, step in even(0, END, 30 * MINUTE, steps=180) for late in (0, 5, 10)]


def when_stalled(story: Story, job=JOB, debugged: Iterable[float] = ()) -> float | None:
    """The first time at which the job is Stalled, None if it never is."""

    async def play() -> float | None:
        reports, status, left = TrainingReports(lambda _key: None), running(job), sorted(story, key=lambda one: one[0])
        for now in range(0, END, TICK):
            while left and left[0][0] <= now:
                time, step = left.pop(0)
                reports.report(KEY, "u", trainer_status(at(time), [("loss", time)], step=step))
            is_debugged = any(begin <= now < begin + 100 * MINUTE for begin in debugged)
            pods = [replace(pod, debugged=is_debugged) for pod in pods_of(job)]
            signs = Signs(steps=reports.steps("u"), watched=at(0))
            status = plan(replace(seen(job, *pods, status=status, now=at(now)), signs=signs)).status
            if status.true(ConditionType.STALLED):
                reports.forget("u")
                return now
        reports.forget("u")
        return None

    return in_virtual_time(play())


@pytest.mark.parametrize(
    ("story", "job"),
    [
        ([], JOB),
        (bursts(), JOB),
        (with_pauses(1, 5, 18), replace(JOB, hang_deadline=1)),
        (with_pauses(2, 600, 9 * MINUTE), JOB),
        ([(5, 0), *even(45 * MINUTE, END, 20)], JOB),
        (even(0, 50 * MINUTE, 20), replace(JOB, policy=run_policy(suspend=True))),
        ([(time, None) for time, _ in even(0, END, 20)], JOB),
        ([*with_pauses(2, 600, 9 * MINUTE), *((time, None) for time, _ in even(0, END, 60))], JOB),
        (even(0, END, 40 * MINUTE, steps=500), JOB),
        (even(0, END, 15 * MINUTE), JOB),
    ],
    ids=[
        "prints nothing",
        "tqdm without newline",
        "a pause of 18 s every 5 steps",
        "a long checkpoint",
        "a long compile",
        "suspended",
        "evaluation without steps",
        "evaluation between steps",
        "rare reports",
        "long steps",
    ],
)
def test_a_healthy_job_is_never_stalled(story, job):
    assert when_stalled(story, job) is None


def test_a_job_that_is_debugged_is_not_stalled():
    story = [*even(0, 30 * MINUTE, 20), *even(120 * MINUTE, END, 20, first=91)]
    assert when_stalled(story, debugged=[30 * MINUTE]) is None
    assert when_stalled(story) == 40 * MINUTE


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (even(0, 30 * MINUTE, 20), 40 * MINUTE - 20),
        ([*even(0, 30 * MINUTE, 20), *((time, 89) for time, _ in even(30 * MINUTE, END, 20))], 40 * MINUTE - 20),
        ([*even(0, 30 * MINUTE, 20), *((time, None) for time, _ in even(30 * MINUTE, END, 20))], 40 * MINUTE - 20),
        (with_pauses(2, 600, 11 * MINUTE), 1200 + 10 * MINUTE),
        (even(0, 61 * MINUTE, 3 * MINUTE), 60 * MINUTE - 3 * MINUTE + 15 * MINUTE),
    ],
    ids=["no report", "the same step", "no step", "a pause that is too long", "five medians"],
)
def test_a_job_that_hangs_is_stalled_in_time(story, expected):
    found = when_stalled(story)
    assert found is not None
    assert expected <= found < expected + 2 * TICK

"""The status gets the last report of the training seldom, and at the end of the job."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, replace, running, seen
from trainshed.api.training import trainer_status
from trainshed.plan import plan

JOB = a_job("PyTorchJob", master=1, worker=1)


def report(second, step, total=100, **found):
    return trainer_status(at(second), [("loss", f"0.{step}")], step=step, total_steps=total, **found)


def planned(now, new, old=None, *pods, job=JOB):
    status = replace(running(job), trainer=old)
    return plan(replace(seen(job, *(pods or pods_of(job)), status=status, now=at(now)), training=new))


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        ({"step": 100}, {"step": 200}, 15),
        ({"step": 100}, {"step": 109}, 60),
        ({"step": 100}, {"step": 99}, 15),
        ({"percentage": 10}, {"percentage": 11}, 15),
        ({"step": 1, "total_steps": None}, {"step": 2, "total_steps": None}, 60),
        ({"step": 1, "remaining_seconds": 500}, {"step": 2, "remaining_seconds": 490}, 60),
        ({"step": 1, "remaining_seconds": 500}, {"step": 2, "remaining_seconds": 400}, 15),
        ({"step": 1}, {"step": 2, "remaining_seconds": 400}, 15),
    ],
    ids=("percent", "less-than-that", "gone-back", "said", "steps-alone", "same-minute", "minute", "end-known"),
)
def test_a_report_is_stored_after_15_seconds_if_tables_show_the_difference_and_otherwise_after_60(old, new, seconds):
    first = trainer_status(at(5), **{"total_steps": 1000} | old)
    second = trainer_status(at(12), **{"total_steps": 1000} | new)
    assert planned(5, first).status.trainer == first, "at once"
    early, due = planned(4 + seconds, second, first), planned(5 + seconds, second, first)
    assert (early.status.trainer, early.requeue_at) == (first, at(5 + seconds))
    assert (due.status.trainer, due.requeue_at) == (second, None)


def test_another_change_of_the_status_takes_a_report_along_that_is_15_seconds_old():
    first, second, pod = (
        report(5, 100, 1000),
        report(12, 101, 1000),
        a_pod("master-0", "Running", ready=True, container="pytorch"),
    )
    assert planned(19, second, first, *pods_of(JOB, pod)).status.trainer == first
    assert planned(20, second, first, *pods_of(JOB, pod)).status.trainer == second


@pytest.mark.parametrize(
    "new",
    [
        None,
        report(4, 20),
        report(99, 10),
        report(99, 10, remaining_seconds=7, steps_per_second=2),
    ],
    ids=("none", "older", "repeated", "only-the-speed-differs"),
)
def test_what_is_no_news_is_not_stored(new):
    old = report(5, 10)
    found = planned(99, new, old)
    assert (found.status.trainer, found.requeue_at) == (old, None)


@pytest.mark.parametrize("code", [0, 137])
def test_the_end_and_a_restart_take_the_last_report_with_them(code):
    old, last = report(5, 10), report(6, 20)
    job = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode")
    phase = "Failed" if code else "Succeeded"
    pods = pods_of(job, a_pod("master-0", phase, container="pytorch", code=code, ended=6))
    found = planned(7, last, old, *pods, job=job)
    assert found.status.trainer == last, "nothing is made up: 20 %, whatever has become of the job"
    again = plan_for(job, status=found.status, now=at(8))
    assert again.status.trainer == last, "a new attempt keeps it"


def test_what_comes_after_the_end_is_stored_after_15_seconds():
    old, last = report(5, 100, 1000), report(12, 101, 1000)
    pods = pods_of(JOB, a_pod("master-0", "Succeeded", container="pytorch", code=0, ended=4))
    over = replace(plan_for(JOB, *pods, status=running(JOB), now=at(5)).status, trainer=old)
    assert over.over
    for now, expected in ((19, old), (20, last)):
        found = plan(replace(seen(JOB, *pods, status=over, now=at(now)), training=last))
        assert found.status == replace(over, trainer=expected)


def test_a_job_of_another_controller_gets_no_report():
    job = replace(JOB, policy=replace(JOB.policy, managed_elsewhere=True))
    assert planned(5, report(5, 10), job=job).status.trainer is None

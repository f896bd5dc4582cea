"""The status gets the last report of the training seldom, and at the end of the job."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, look, pods_of, replace, running, seen
from trainshed.api.training import trainer_status
from trainshed.plan import plan

JOB = a_job("PyTorchJob", master=1, worker=1)


def report(second, step, **found):
    return trainer_status(at(second), [("loss", f"0.{step}")], step=step, total_steps=100, **found)


def planned(now, new, old=None, *pods, job=JOB):
    status = replace(running(job), trainer=old)
    return plan(replace(seen(job, *(pods or pods_of(job)), status=status, now=at(now)), training=new))


def test_the_first_report_is_stored_at_once_and_the_next_one_after_15_seconds():
    first, second = report(5, 10), report(12, 20)
    assert planned(5, first).status.trainer == first
    early, due = planned(19, second, first), planned(20, second, first)
    assert (early.status.trainer, early.requeue_at) == (first, at(20))
    assert (due.status.trainer, due.requeue_at) == (second, None)


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
    again = look(job, status=found.status, now=at(8))
    assert again.status.trainer == last, "a new attempt keeps it"


def test_a_job_of_another_controller_gets_no_report():
    job = replace(JOB, policy=replace(JOB.policy, managed_elsewhere=True))
    assert planned(5, report(5, 10), job=job).status.trainer is None

"""Which steps are read from the output of replicas and from what they report, and to which start each belongs."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from support.local_runs import a_job
from support.scripted_runtime import NoLogs
from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.api.trainer_status import TrainerStatus
from trainshed.cli import local_jobs
from trainshed.drill import step_log
from trainshed.drill.step_log import StepLog, loss_of

OWN = "pytorch"


class Job:
    """A job whose leader is started, prints and reports; each of these takes a second."""

    def __init__(self, log: StepLog | None = None, name: str = "job-master-0") -> None:
        self.now = 1.0
        document = a_job("")
        item = local_jobs.made(document, rendering.rendered(document, "ml", JobDefaults()), "ml")
        self.log = log or StepLog(item, NoLogs(), lambda: self.now)
        self.pod = {"metadata": {"name": name, "uid": "1"}, "spec": {"containers": [{"name": OWN}]}}

    def prints(self, *lines: str, seconds: float = 1.0) -> None:
        self.now += seconds
        self.log.write(self.pod, OWN, "".join(f"{line}\n" for line in lines).encode())

    def reports(self, *steps: int | None, uid: str = "1") -> None:
        for step in steps:
            self.now += 1
            status = TrainerStatus(datetime(2026, 1, 1, tzinfo=UTC), step=step, metrics=(("loss", "0.5"),))
            self.log.hear(status, (self.pod["metadata"]["name"], uid))

    def starts(self, uid: str = "1") -> None:
        self.pod["metadata"]["uid"] = uid
        self.log.begin(self.pod, OWN)

    def ends(self) -> None:
        self.log.end(self.pod, OWN)

    @property
    def found(self) -> list[tuple[int, int]]:
        return [(report.attempt, report.step) for report in self.log.reports]


@pytest.fixture
def job() -> Job:
    found = Job()
    found.starts()
    return found


def test_steps_are_those_of_the_start_in_which_they_were_printed(job):
    job.prints("step=1/9 loss=0.5", "nothing", "step=2/9 loss=nan")
    job.ends()
    job.starts("2")
    job.prints("step=2/9 loss=0.4")
    assert job.found == [(0, 1), (0, 2), (1, 2)]
    assert (job.log.last_line(), job.log.last_line("job-worker-0")) == ("step=2/9 loss=0.4", "")
    assert job.log.reports[-1].loss == 0.4
    assert math.isnan(job.log.reports[1].loss)


def test_what_a_training_reports_counts_in_place_of_what_it_prints(job):
    job.prints("step=500/900 loss=0.5")
    job.reports(None, 1, 2)
    assert (job.found, job.log.without_step) == ([(0, 1), (0, 2)], 1)


def test_a_report_of_what_has_ended_is_none_of_what_is_started_after_it(job):
    """A program may be killed while its report is on the way, also where its container is started again in its pod."""
    job.reports(1, 2)
    job.ends()
    job.reports(3)
    job.starts("2")
    job.reports(4, uid="1")
    job.reports(1, 2, uid="2")
    job.reports(5, uid="1")
    assert job.found == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2)]


def test_steps_of_a_container_that_begin_again_are_marked(job):
    job.prints("step=7 loss=0.5", "step=8 loss=0.5", "step=8 loss=0.5", "step=1 loss=0.5")
    assert job.found == [(0, 7), (0, 8), (1, 1)]
    assert [report.began_again for report in job.log.reports] == [False, False, True]


def test_epochs_count_only_until_there_are_steps(job):
    job.prints("Epoch 1/3", "epoch 2 loss 0.5")
    assert job.found == [(0, 1), (0, 2)]
    job.prints("step=100 loss=0.5", "step=101 loss=0.5")
    job.ends()
    job.starts("2")
    job.prints("epoch 3 loss 0.5", "step=150 loss=0.5")
    assert job.found == [(0, 100), (0, 101), (1, 150)]


def test_the_first_lines_of_a_start_are_read_however_much_was_printed_in_that_second(job, monkeypatch):
    monkeypatch.setattr(step_log, "MOST_LINES", 3)
    job.prints(*(f"step={step} loss=0.5" for step in range(1, 9)))
    job.ends()
    job.starts("2")
    job.prints("step=1 loss=0.5", "step=2 loss=0.5", *["noise"] * 5, "step=3 loss=0.5", seconds=0)
    job.prints("step=4 loss=0.5", "step=5 loss=0.5")
    assert job.found == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 4), (1, 5)]
    assert [report.skipped for report in job.log.reports[3:]] == [False, False, True, False]


def test_of_many_steps_the_first_ones_of_each_start_and_the_last_are_kept(job, monkeypatch):
    monkeypatch.setattr(step_log, "MOST_REPORTS", 3)
    monkeypatch.setattr(step_log, "MOST_ATTEMPTS", 2)
    for _ in range(4):
        job.reports(*range(1, 9))
    assert job.found[:6] == [(0, 1), (0, 2), (0, 8), (1, 1), (1, 2), (1, 8)]
    assert job.found[-1] == (3, 8)
    assert len(job.found) <= 8


def test_the_first_replica_that_says_steps_counts_if_the_leader_does_not(job):
    other = Job(job.log, "job-worker-0")
    other.starts()
    other.prints("step=1 loss=0.5")
    assert job.found == [(0, 1)]
    job.prints("step=4 loss=0.5")
    assert job.found == [(0, 4)]


def test_the_output_of_other_containers_is_none_of_the_training(job):
    for act in (lambda: job.log.begin(job.pod, "proxy"), lambda: job.log.end(job.pod, "proxy")):
        act()
    job.log.write(job.pod, "proxy", b"step=1 loss=0.5\n")
    assert job.found == []


def test_the_loss_is_the_metric_with_the_shortest_name():
    assert loss_of([("val_loss", "3"), ("loss", "2"), ("acc", "1")]) == 2
    assert loss_of([("acc", "1")]) is None
    assert math.isnan(loss_of([("loss", "none")]))

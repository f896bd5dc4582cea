"""The startup time of a job is measured once, from its creation or resumption."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.builders import T0, a_job, a_pod, seen
from support.replace import replace
from trainshed.api.job import JobKey
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.controller.observed_pods import StartupTimes

JOB = replace(a_job(worker=2), created=T0)
KEY = JobKey("ml", "TFJob", "mnist")
UP = (a_pod("worker-0", "Running"), a_pod("worker-1", "Succeeded"))


def having(*kinds: ConditionType) -> Status:
    return Status(conditions=tuple(Condition(kind, True, "r", "m", T0, T0) for kind in kinds))


def later(snapshot, seconds: float):
    return replace(snapshot, now=T0 + timedelta(seconds=seconds))


@pytest.fixture
def startups() -> StartupTimes:
    """Startups that saw the job start 2 s after its creation."""
    found = StartupTimes()
    found.on_status_stored(later(seen(JOB), 2), having(ConditionType.CREATED))
    return found


def test_the_startup_time_is_measured_once_when_all_pods_run(startups):
    for pods in ((), UP[:1], (UP[0], a_pod("worker-1", "Pending"))):
        assert startups.observe(later(seen(JOB, *pods), 5)) is None
    assert startups.observe(later(seen(JOB, *UP), 7)) == 7
    assert startups.observe(later(seen(JOB, *UP), 8)) is None


def test_a_job_that_started_before_the_process_is_not_measured():
    startups = StartupTimes()
    startups.on_status_stored(
        seen(JOB, status=having(ConditionType.CREATED)), having(ConditionType.CREATED, ConditionType.RUNNING)
    )
    assert startups.observe(seen(JOB, *UP)) is None


def test_a_resumed_job_is_measured_again(startups):
    suspended = having(ConditionType.CREATED, ConditionType.SUSPENDED)
    startups.on_status_stored(seen(JOB), suspended)
    assert startups.observe(later(seen(JOB, *UP), 7)) is None
    startups.on_status_stored(later(seen(JOB, status=suspended), 60), having(ConditionType.CREATED))
    assert startups.observe(later(seen(JOB, *UP), 63)) == 3


@pytest.mark.parametrize("verdict", [ConditionType.SUCCEEDED, ConditionType.FAILED])
def test_a_finished_job_is_not_measured(startups, verdict):
    startups.on_status_stored(seen(JOB), having(ConditionType.CREATED, verdict))
    assert startups.observe(seen(JOB, *UP)) is None


def test_a_deleted_job_is_forgotten(startups):
    startups.forget(KEY)
    assert startups._since == {}


def test_a_clock_behind_the_servers_gives_no_negative_time(startups):
    assert startups.observe(later(seen(JOB, *UP), -1)) == 0


def test_without_a_creation_time_the_first_reconcile_counts():
    startups = StartupTimes()
    startups.on_status_stored(later(seen(replace(JOB, created=None)), 2), having(ConditionType.CREATED))
    assert startups.observe(later(seen(JOB, *UP), 5)) == 3

"""What a status says in place of assumptions: start, restarts, failures, checkpoints and the time of the training."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from support.builders import at
from trainshed.api.status import MAX_RECENT_RESTARTS, Condition, ConditionType, Failure, Restart, Retries, Status
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.api.trainer_status import TrainerStatus
from trainshed.plan.retry_delay import backoff_seconds
from trainshed.whatif.measured import JobMeasures, measures

UID = "job-uid"
SPENT = TimeSpent(
    {JobPhase.SCHEDULING: 10, JobPhase.IMAGE_PULL: 50, JobPhase.PROGRAM_STARTUP: 40, JobPhase.RUNNING: 6_000}
)
RUNNING = Condition(ConditionType.RUNNING, true=True, reason="", message="", updated=at(0), changed=at(0))


def a_restart(time: float, recovered: int | None = 30, kind: str = "Application", code: int | None = 137, **fields):
    return Restart(at(time), 1, "worker-0", "node-a", kind, "Error", code, 4, recovered, **fields)


def of(status: Status, **how) -> JobMeasures:
    return measures(UID, status, at(0), **{"size": 4, "together": True} | how)


def condition(kind: ConditionType) -> Condition:
    return replace(RUNNING, type=kind)


def test_a_job_that_succeeded_after_failures_shows_everything():
    restarts = (
        a_restart(1_000, 30, lost_work_seconds=100),
        a_restart(2_000, 40, kind="Disruption", code=None, lost_work_seconds=200),
        a_restart(3_000, 50, code=139),
        a_restart(5_000, None, code=139),
    )
    spent = replace(SPENT, lost_work=300)
    status = Status((condition(ConditionType.SUCCEEDED),), recent_restarts=restarts, time_spent=spent)
    found = of(status)
    assert {one.option: one.value for one in found.known} == {
        "start-up": 60 + 40 / 5,
        "restart-cost": 40 + 40 / 5,
        "mtbf": 6_040 / 4,
        "program-failures": 0.75,
        "exit-code": 139,
        "checkpoint-every": 300,
        "run-time": 5_700,
    }
    assert found.unknown == found.doubts == ()
    assert (found.value("run-time"), found.value("other")) == (5_700, None)


def test_the_back_off_of_restarts_in_a_row_is_no_cost_of_theirs():
    gap = timedelta(seconds=100)
    waits = [backoff_seconds(UID, number) for number in (1, 2, 3, 1)]
    times = [at(0), at(0) + gap, at(0) + 2 * gap, at(0) + 2 * gap + timedelta(seconds=700 + waits[2])]
    restarts = tuple(replace(a_restart(0, 20 + wait), time=time) for wait, time in zip(waits, times, strict=True))
    status = Status((RUNNING,), recent_restarts=restarts, time_spent=replace(SPENT, seconds={JobPhase.RUNNING: 9}))
    assert waits[0] == waits[3] == 0
    assert waits[2] > waits[1] > 0
    assert of(status).value("restart-cost") == 20


def test_of_many_restarts_those_that_are_kept_count_from_the_first_of_them_on():
    restarts = tuple(
        a_restart(1_000 * number, total_running_seconds=1_040 + 500 * number) for number in range(MAX_RECENT_RESTARTS)
    )
    status = Status((RUNNING,), recent_restarts=restarts, time_spent=SPENT)
    assert of(status).value("mtbf") == 5_000 / (MAX_RECENT_RESTARTS - 1)


@pytest.mark.parametrize(("together", "failures"), [(True, 2), (False, 8)])
def test_restarts_by_the_kubelet_are_failures_too(together, failures):
    status = Status((RUNNING,), retries=Retries(container_restarts=8), time_spent=SPENT)
    assert of(status, together=together).value("mtbf") == 6_040 / failures


def test_the_failure_that_ended_a_job_counts():
    failure = Failure("worker-0", "job-worker-0", "node-a", "Application", "Error", 1, "", at(0))
    status = Status((condition(ConditionType.FAILED),), failure=failure, time_spent=SPENT)
    assert of(status).value("mtbf") == 6_040


def test_a_job_that_trains_has_a_time_that_remains():
    report = TrainerStatus(at(0), remaining_seconds=3_000)
    status = Status((RUNNING,), trainer=report, time_spent=SPENT)
    found = of(status)
    assert found.value("run-time") == 9_000
    assert {option for option, _ in found.unknown} == {"restart-cost", "mtbf", "checkpoint-every"}


def test_without_an_exit_code_a_program_was_killed_and_lost_nodes_have_none():
    killed = Status((RUNNING,), recent_restarts=(a_restart(0, code=None),), time_spent=SPENT)
    assert of(killed).value("exit-code") == 137
    lost = Status((RUNNING,), recent_restarts=(a_restart(0, kind="Disruption", code=None),), time_spent=SPENT)
    assert (of(lost).value("exit-code"), of(lost).value("program-failures")) == (None, 0)


@pytest.mark.parametrize(("seconds", "said"), [(599, ["It ran for 9m59s only"]), (600, [])])
def test_a_short_run_says_that_it_says_little(seconds, said):
    found = of(Status((RUNNING,), time_spent=replace(SPENT, seconds={JobPhase.RUNNING: seconds})))
    assert [one.partition(",")[0] for one in found.doubts] == said


MOST = 2**31 - 1
IMPOSSIBLE = {
    "start-up": Status(time_spent=replace(SPENT, seconds={JobPhase.SCHEDULING: MOST, JobPhase.RUNNING: 9})),
    "restart-cost": Status(recent_restarts=(a_restart(0, MOST),), time_spent=SPENT),
    "mtbf": Status(
        recent_restarts=tuple(a_restart(n, total_running_seconds=MOST) for n in range(MAX_RECENT_RESTARTS)),
        time_spent=SPENT,
    ),
    "exit-code": Status(recent_restarts=(a_restart(0, code=MOST),), time_spent=SPENT),
    "checkpoint-every": Status(recent_restarts=(a_restart(0, lost_work_seconds=MOST),), time_spent=SPENT),
    "run-time": Status((RUNNING,), trainer=TrainerStatus(at(0), remaining_seconds=MOST), time_spent=SPENT),
}


@pytest.mark.parametrize("option", IMPOSSIBLE)
def test_what_no_job_can_have_shown_is_not_taken(option):
    found = of(IMPOSSIBLE[option])
    assert found.value(option) is None
    assert dict(found.unknown)[option] == "its status has what no job can have shown"


def test_a_job_that_has_not_run_shows_nothing():
    found = of(Status())
    assert found.known == found.doubts == ()
    assert [option for option, _ in found.unknown] == [
        "start-up",
        "restart-cost",
        "mtbf",
        "checkpoint-every",
        "run-time",
    ]

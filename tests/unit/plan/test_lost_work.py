"""What a training reports tells the start of its program from its training, and the work that is done again."""

from __future__ import annotations

import pytest

from support.builders import T0, a_job, a_pod, at, plan_for, pods_of, replace, seen
from support.virtual_time import in_virtual_time
from trainshed.api.job import JobKey
from trainshed.api.status import Restart, Status
from trainshed.api.status_codec import parse_status, status_document
from trainshed.api.time_spent import NOTHING, JobPhase
from trainshed.api.trainer_status import TrainerStatus
from trainshed.api.training import trainer_status
from trainshed.controller.training_reports import TrainingReports
from trainshed.plan import plan


@pytest.mark.parametrize(
    ("again", "seconds"),
    [
        ({}, 20),
        ({"steps_per_second": None, "last": {"steps_per_second": 4.0}}, 10),
        ({"first_step": 60}, 0),
        ({"first_step": 50}, 0),
        ({"began": at(9)}, 0),
        ({"began": None}, 0),
        ({"last": {"step": None}}, 0),
        ({"last": {"steps_per_second": None}, "steps_per_second": None}, 0),
        ({"started": 3}, 0),
        ({"failed": -60}, 20),
        ({"failed": 4, "kind": "Disruption"}, 14),
        ({"failed": 4}, 20),
        ({"left_step": 58, "left": at(14)}, 24),
        ({"left_step": 40, "left": at(8)}, 20),
        ({"failed": 0}, 20),
        ({"step": 50, "first_step": 10, "same": True}, 0),
    ],
)
def test_work_that_is_done_again_after_a_restart_is_counted_once(again, seconds):
    """The stored report says step 50 at 10 s; the run of now has begun with step 10, at two steps a second."""
    job = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode", created=T0)
    last = replace(TrainerStatus(at(10), step=50, steps_per_second=2.0), **again.pop("last", {}))
    pods = pods_of(job, a_pod("worker-0", container="pytorch", started=again.pop("started", 15)))
    now, failed = at(12) if again.pop("same", False) else at(40), again.pop("failed", 11)
    kind = again.pop("kind", "Application")
    report = replace(TrainerStatus(at(40), step=30, steps_per_second=2.0, first_step=10, began=at(30)), **again)
    restart = Restart(at(failed), 1, "worker-0", "", kind, "Error", 1, 2)
    status = replace(plan_for(job, *pods, now=at(1)).status, trainer=last, recent_restarts=(restart,))
    for _ in range(3):  # once it is stored, and as often as it is looked at again
        status = plan(replace(seen(job, *pods, status=status, now=now), training=report)).status
        status = parse_status({"status": status_document(status)})
    assert status.time_spent.lost_work == seconds
    assert status.recent_restarts[0].lost_work_seconds == (seconds if failed > 0 and seconds else None)
    lost = replace(status.time_spent, seconds={JobPhase.RUNNING: 80, JobPhase.RESTART: 20}, phase=None)
    document = status_document(replace(status, time_spent=lost))["timeSpent"]
    known = {"goodputPercentage": 80 - seconds} if status.steps_known else {}
    assert {key: value for key, value in document.items() if "Percentage" in key} == {
        "availabilityPercentage": 80,
        **known,
    }
    assert (NOTHING.availability, NOTHING.goodput) == (None, None)


#: The first report of a run, and the next one of it.
FIRST, NEXT = {"step": 1, "first_step": 1}, {"step": 61, "first_step": 1, "steps_per_second": 1.0}
LATE = {"first_step": 40, "steps_per_second": 1.0}


@pytest.mark.parametrize(
    ("before", "reports", "seconds"),
    [
        (None, [FIRST], 0),
        (None, [FIRST, NEXT], 44),
        (None, [{"step": 0, "first_step": 0}], 45),
        (None, [FIRST, NEXT, {"step": 99, "first_step": 99, "began": at(180)}], 44),
        (None, [{"step": 40} | LATE], 5),
        (None, [{"step": 40} | LATE | {"first_step": 60}], 0),
        (None, [{"percentage": 3}], 0),
        (TrainerStatus(at(10), step=50, steps_per_second=1.0), [FIRST, NEXT], 45),
        (TrainerStatus(at(40), step=50, steps_per_second=1.0), [NEXT], 0),
    ],
)
def test_a_program_starts_until_its_run_makes_a_first_step(before, reports, seconds):
    """Its containers run from 15 s on; it reports at 60 s first, and then each minute."""
    job = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode", created=T0)
    pods = pods_of(job, a_pod("worker-0", container="pytorch", started=15, created=at(1), scheduled=at(2)))
    status = replace(plan_for(job, *pods, now=at(16)).status, trainer=before)
    assert status.time_spent.since == at(15)
    for number, known in enumerate(reports):
        now = at(60 + 60 * number)
        report = TrainerStatus(now, **{"began": at(60) if "first_step" in known else None} | known)
        status = plan(replace(seen(job, *pods, status=status, now=now), training=report)).status
        status = parse_status({"status": status_document(status)})
    assert status.time_spent.until(at(200)).total(JobPhase.PROGRAM_STARTUP) == seconds
    assert status.time_spent.total(*JobPhase) == (status.time_spent.since - T0).total_seconds()


def test_the_last_steps_before_a_restart_count_though_the_next_run_reports_before_they_are_stored():
    """A run ends at step 218; the restart is stored with step 214, because the end of the log is read after it."""

    async def story() -> int:
        reports, job = TrainingReports(lambda _key: None), a_job("PyTorchJob", master=1, created=T0)
        pods, status = pods_of(job, a_pod("master-0", container="pytorch", started=0)), Status()
        for second, step in [*((number, 200 + number) for number in range(15)), (19, 218), (24, 200), (30, 206)]:
            pod = "master-0", "first" if second < 20 else "second"
            reports.report(JobKey("ml", "PyTorchJob", "mnist"), "u", trainer_status(at(second), step=step), pod)
            if second in (14, 30):
                known = replace(seen(job, *pods, status=status, now=at(second)), training=reports.of("u"))
                status = parse_status({"status": status_document(plan(known).status)})
                pods = pods_of(job, a_pod("master-0", container="pytorch", started=22))
        reports.forget("u")
        return status.time_spent.lost_work

    assert in_virtual_time(story()) == 18


@pytest.mark.parametrize("seen_at", [101, 112])
def test_what_a_run_trains_after_sigterm_is_no_lost_work_whenever_its_disruption_is_seen(seen_at):
    """All run from 10 s on, a step a second; worker-0 is evicted at 100 s and ends at 110 s; step 70 comes next."""
    job = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode", created=T0)
    runs = {"created": at(1), "scheduled": at(2), "started": 10, "container": "pytorch"}
    pods = [a_pod("master-0", **runs), a_pod("worker-0", **runs)]
    report = TrainerStatus(at(90), step=80, steps_per_second=1.0, first_step=1, began=at(11))
    status = plan(
        replace(seen(job, *pods, status=plan_for(job, *pods, now=at(11)).status, now=at(90)), training=report)
    ).status
    removed = {"disruption": "EvictionByEvictionAPI", "disrupted": at(100), "grace": 30}
    ended = {"phase": "Failed", "code": 143, "ended": 110} if seen_at > 110 else {"deleting": True}
    evicted = replace(a_pod("worker-0", **runs | ended), **removed)
    report = replace(report, updated=min(at(110), at(seen_at)), step=min(100, seen_at - 10))
    status = plan(replace(seen(job, pods[0], evicted, status=status, now=at(seen_at)), training=report)).status
    assert (status.recent_restarts[0].time, status.time_spent.since) == (at(100), at(100))
    again = [
        a_pod(name, **runs | {"started": 150, "created": at(120), "attempt": 1}) for name in ("master-0", "worker-0")
    ]
    report = TrainerStatus(
        at(170), step=80, steps_per_second=1.0, first_step=70, began=at(160), left_step=100, left=at(110)
    )
    status = plan(replace(seen(job, *again, status=status, now=at(170)), training=report)).status
    assert (status.time_spent.lost_work, status.recent_restarts[0].lost_work_seconds) == (20, 20)

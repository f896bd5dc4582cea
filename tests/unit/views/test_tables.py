"""The tables of `get` and `events`, ages as kubectl prints them, and lines of logs."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, printed, replace, run_policy, running
from trainshed.api import status_codec
from trainshed.api.status import ConditionType, ReplicaStatus, Restart, Retries, Status, Waiting
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.api.training import trainer_status
from trainshed.cli import tables
from trainshed.client.job_reader import job_event
from trainshed.client.log_stream import stamped
from trainshed.plan.conditions import ConditionUpdate, set_condition
from trainshed.views import log_lines, rows
from trainshed.views.durations import age, exact, human


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-5, "0s"), (0, "0s"), (119.9, "119s"), (120, "2m"), (130, "2m10s"), (599, "9m59s"), (600, "10m")),
        *((3 * 3600 - 1, "179m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (8 * 3600 + 60, "8h"), (48 * 3600, "2d")),
        *((49 * 3600, "2d1h"), (8 * 86400 + 3600, "8d"), (2 * 365 * 86400, "2y"), (3 * 365 * 86400 + 86400, "3y1d")),
        (9 * 365 * 86400 + 86400, "9y"),
    ],
)
def test_a_duration_reads_as_in_kubectl(seconds: float, text: str):
    """The limits are those of `HumanDuration` in k8s.io/apimachinery/pkg/util/duration."""
    assert human(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (119, "119s"), (720, "12m0s"), (90_065, "25h1m5s")])
def test_a_duration_to_the_second_is_as_short_as_it_can_be(seconds: int, text: str):
    assert exact(seconds) == text


def test_an_age_without_a_beginning_is_unknown():
    assert age(None, at(0)) == "<unknown>"


def document(job, status: Status, **metadata) -> dict:
    """A job as the API server gives it."""
    known = {"name": job.name, "namespace": job.namespace, "creationTimestamp": "2026-01-01T12:00:00Z", **metadata}
    return {"kind": job.kind, "metadata": known, "status": status_codec.status_patch(job, Status(), status)["status"]}


def test_a_row_says_what_state_a_job_is_in():
    job = a_job("PyTorchJob", master=1, worker=1)
    labels = {"kueue.x-k8s.io/queue-name": "gpus"}
    report = trainer_status(at(0), step=52, total_steps=100, remaining_seconds=480)
    spent = TimeSpent({JobPhase.RUNNING: 60, JobPhase.RESTART: 20}, JobPhase.RUNNING, at(7180), lost_work=15)
    status = replace(running(job), trainer=report, time_spent=spent)
    found = rows.row(document(job, status, labels=labels), at(7200), namespaces=True, wide=True)
    names = rows.header(namespaces=True, wide=True)
    assert dict(zip(names, found, strict=True)) == {
        "NAMESPACE": "ml",
        "NAME": "pytorchjob/mnist",
        "STATE": "Running",
        "READY": "0/2",
        "RESTARTS": "0",
        "AGE": "120m",
        "QUEUE": "gpus",
        "DURATION": "120m",
        "AVAILABILITY": "80%",
        "GOODPUT": "65%",
        "PROGRESS": "52%, 8m left",
        "WHY": "",
    }


@pytest.mark.parametrize("state", [ConditionType.FAILED, ConditionType.SUSPENDED])
def test_tables_say_how_far_a_job_was_that_does_not_train_and_not_how_long_it_still_takes(state: ConditionType):
    job = a_job("PyTorchJob", master=1, worker=1)
    report = trainer_status(at(0), step=7, total_steps=100, remaining_seconds=240)
    status = replace(set_condition(running(job), ConditionUpdate(state, "", ""), at(50)), trainer=report)
    *_, progress, _ = rows.row(document(job, status), at(60), namespaces=False, wide=True)
    assert progress == "7%"


#: The last report is of the 100th second. Before that the job runs, and then comes what a case says.
RESTARTED = Restart(at(90), 1, "worker-1", "", "Application", "", 1, 2)
STATUSES = {
    "reports": ({}, ["Running"], "7%, 4m left"),
    "pending": ({}, ["Created"], "7%"),
    "restarting": ({}, ["Restarting"], "7%"),
    "ends": ({}, ["Running", "FailureTarget"], "7%"),
    "blocked": ({"since": 110}, ["Created", "Blocked"], "7%"),
    "blocked-while-it-runs": ({"since": 110}, ["Running", "Blocked"], "7%"),
    "elastic-and-too-small": ({"since": 95}, ["Running", "Blocked"], "7%, 4m left"),
    "recovers": ({"time_spent": TimeSpent({}, JobPhase.RESTART, at(90))}, ["Running"], "7%"),
    "restarted-and-silent": ({"recent_restarts": (replace(RESTARTED, recovery_seconds=15),)}, ["Running"], "7%"),
    "restarted": ({"recent_restarts": (replace(RESTARTED, recovery_seconds=9),)}, ["Running"], "7%, 4m left"),
}


@pytest.mark.parametrize(("found", "states", "shown"), STATUSES.values(), ids=STATUSES)
def test_an_estimate_is_shown_only_while_the_training_advances(found: dict, states: list[str], shown: str):
    job, status, since = a_job("PyTorchJob", master=1, worker=1), Status(), found.pop("since", 110)
    for state in states:
        status = set_condition(status, ConditionUpdate(ConditionType(state), "", ""), at(since))
    report = trainer_status(at(100), step=7, total_steps=100, remaining_seconds=240)
    stored = document(job, replace(status, trainer=report, **found))
    *_, progress, _ = rows.row(stored, at(120), namespaces=False, wide=True)
    assert (progress, stored["status"]["progress"]) == (shown, shown)


def test_a_job_that_was_resumed_has_no_estimate_before_the_next_report():
    job = a_job("PyTorchJob", master=1, worker=1)
    status = replace(running(job), trainer=trainer_status(at(100), step=7, total_steps=100, remaining_seconds=240))
    for kind, true in (
        (ConditionType.SUSPENDED, True),
        (ConditionType.SUSPENDED, False),
        (ConditionType.RUNNING, True),
    ):
        status = set_condition(status, ConditionUpdate(kind, "", ""), at(200), true=true)
    assert status.progress == "7%"
    again = trainer_status(at(300), step=8, total_steps=100, remaining_seconds=240)
    assert replace(status, trainer=again).progress == "8%, 4m left"


@pytest.mark.parametrize(("step", "shown"), [(7, "7%, stalled"), (None, "stalled")])
def test_tables_say_that_a_job_is_stalled_and_not_how_long_it_still_takes(step: int | None, shown: str):
    job = a_job("PyTorchJob", master=1, worker=1)
    update = ConditionUpdate(ConditionType.STALLED, "NoStep", "no step since step 7 at 2026-01-01T12:00:00Z")
    report = trainer_status(at(0), step=step, total_steps=100, remaining_seconds=240)
    status = replace(set_condition(running(job), update, at(50)), trainer=report)
    found = document(job, status)
    *_, progress, why = rows.row(found, at(60), namespaces=False, wide=True)
    assert (progress, why) == (shown, "Stalled: no step since step 7 at 2026-01-01T12:00:00Z")
    columns = printed(replace(plan_for(job, *pods_of(job)), status=status))
    assert (columns["Progress"], columns["Stalled"]) == (shown, "no step since step 7 at 2026-01-01T12:00:00Z")


def test_a_row_counts_the_restarts_that_are_free_too():
    job = a_job("PyTorchJob", master=1, worker=1)
    kinds = ("Disruption", "Infrastructure", "Application")
    known = tuple(Restart(at(n), n, "worker-0", "", kind, "", None, 2) for n, kind in enumerate(kinds))
    status = replace(running(job), recent_restarts=known, retries=Retries(used=1, container_restarts=2))
    assert rows.row(document(job, status), at(60), namespaces=False, wide=False)[3] == "5"


def test_a_row_says_that_a_job_will_be_stopped_before_its_training_ends():
    job = a_job("PyTorchJob", master=1, worker=1)
    report = trainer_status(at(0), step=7, total_steps=100, remaining_seconds=18_000)
    found = document(
        job, replace(plan_for(job, *pods_of(job), status=running(job)).status, start=at(0), trainer=report)
    )
    found["spec"] = {"runPolicy": {"activeDeadlineSeconds": 7200}}
    *_, why = rows.row(found, at(60), namespaces=False, wide=False)
    assert why == "activeDeadlineSeconds stops it about 3h before its training ends"


def test_a_row_says_why_a_job_has_failed():
    job = a_job("PyTorchJob", master=1, worker=1)
    worker = a_pod("worker-0", "Failed", container="pytorch", code=1, ended=5.0, words="ValueError: bad\x1b[2J batch")
    status = plan_for(job, *pods_of(job, worker), status=running(job), now=at(60)).status
    *_, why = rows.row(document(job, status), at(60), namespaces=False, wide=False)
    assert why == "worker-0 exited with code 1 after 5s: ValueError: bad batch"


@pytest.mark.parametrize(
    ("limits", "active", "said"),
    [
        ({"nvidia.com/gpu": 8, "cpu": "4"}, 1, "; 1 pod still holds 8 nvidia.com/gpu"),
        ({"nvidia.com/gpu": 8}, 2, "; 2 pods still hold 16 nvidia.com/gpu"),
        ({"nvidia.com/gpu": 8}, 0, ""),
        ({"cpu": "4"}, 2, ""),
        (None, 2, ""),
    ],
)
def test_a_row_says_what_the_pods_of_a_failed_job_still_hold(limits: dict | None, active: int, said: str):
    job = a_job("PyTorchJob", master=1, worker=1)
    status = set_condition(running(job), ConditionUpdate(ConditionType.FAILED, "", "it failed"), at(50))
    found = document(job, replace(status, replica_statuses={"Worker": ReplicaStatus(active=active)}))
    template = {"spec": {"containers": [{"resources": {"limits": limits}}]}}
    found["spec"] = {"runPolicy": {}, "pytorchReplicaSpecs": {"worker": {"template": template}, "Master": "?"}}
    assert rows.why(status_codec.parse_status(found), found) == f"it failed{said}"


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "PyTorchJob mnist is suspended."),
        ({"kueue.x-k8s.io/queue-name": "team\ngpus"}, "waits for Kueue, in queue team gpus"),
    ],
)
def test_a_row_says_which_queue_a_job_waits_in(labels: dict, why: str):
    job = a_job("PyTorchJob", policy=run_policy(suspend=True), master=1)
    found = rows.row(document(job, plan_for(job).status, labels=labels), at(60), namespaces=False, wide=False)
    assert found[-1] == why


CRASH = Waiting("Worker", "1", 1, "CrashLoopBackOff", "container proxy was restarted 3 times", at(0))


@pytest.mark.parametrize(
    ("ready", "change", "expected"),
    [
        ("1/2", {"waiting": (CRASH,)}, "worker-1: container proxy was restarted 3 times"),
        ("1/2", {"waiting": (replace(CRASH, indexes="1-2", count=2),)}, "worker 1-2: container proxy was restarted 3"),
        ("1/2", {"retries": Retries(used=1, container_restarts=2)}, "the kubelet has restarted containers 2 times: "),
        (
            "1/2",
            {"retries": Retries(container_restarts=1)},
            "the kubelet has restarted containers once: trainshed exp",
        ),
        ("1/2", {}, ""),
        ("2/2", {"waiting": (CRASH,), "retries": Retries(container_restarts=1)}, ""),
    ],
)
def test_a_row_says_why_replicas_of_a_job_that_runs_are_not_ready(ready: str, change: dict, expected: str):
    job = a_job("PyTorchJob", master=1, worker=1)
    found = document(job, replace(running(job), **change))
    found["status"]["ready"] = ready
    *_, why = rows.row(found, at(60), namespaces=False, wide=False)
    assert why.startswith(expected)
    assert bool(why) is bool(expected)


@pytest.mark.parametrize(
    "job", [{}, {"metadata": None, "status": 5}, {"metadata": {"labels": 3}, "status": {"ready": 1}}]
)
def test_a_job_of_any_shape_has_a_row(job: dict):
    assert rows.row(job, at(0), namespaces=False, wide=True)[1] == "Pending"


def test_events_are_rows_and_the_series_counts():
    about = {"kind": "Pod", "name": "mnist-worker-0"}
    event = {"type": "Warning", "reason": "Failed", "message": "two\nlines", "involvedObject": about}
    series = {"count": 7, "lastObservedTime": "2026-01-01T12:00:30Z"}
    old = {**event, "count": 2, "lastTimestamp": "2026-01-01T12:00:00Z"}
    found = rows.of_events(sorted([{**event, "series": series}, old], key=rows.event_time), at(60))
    assert [row[:2] for row in found] == [("60s", "2"), ("30s", "7")]
    assert found[0][2:] == ("Warning", "Failed", "pod/mnist-worker-0", "two lines")


@pytest.mark.parametrize("field", ["reason", "message", "type", "kind", "name"])
def test_no_event_and_no_job_makes_a_table_wide(field: str, capsys):
    long = "long" * 2**18
    about = {"kind": "Pod", "name": "mnist", "uid": "u"}
    event = {"reason": "r", "message": "m", "type": "t", "involvedObject": about}
    (about if field in about else event)[field] = long
    tables.show(rows.EVENTS, rows.of_events(map(job_event, [event, *[{"reason": "fine"}] * 9]), at(60)))
    job = {"kind": long, "metadata": {"name": long, "namespace": long}, "status": {"ready": long}}
    tables.show(rows.header(namespaces=True, wide=True), [rows.row(job, at(0), namespaces=True, wide=True)])
    assert len(capsys.readouterr().out) < 20_000


@pytest.mark.parametrize(
    ("content", "time", "text"),
    [
        (b"2026-01-01T12:00:00.5Z step 1", "2026-01-01T12:00:00.5Z", "step 1"),
        (b"2026-01-01T12:00:00Z  10%\r 20%\r", "2026-01-01T12:00:00Z", " 20%"),
        (b"2026-01-01T12:00:00Z \x1b[2Jgone\xff", "2026-01-01T12:00:00Z", "gone\ufffd"),
        (b"", "", ""),
        (b"unable to retrieve container logs", "", "unable to retrieve container logs"),
        (b"2026 was long", "", "2026 was long"),
    ],
)
def test_a_line_of_a_log_is_fit_for_a_terminal(content: bytes, time: str, text: str):
    assert log_lines.parse("worker-0", *stamped(content), colour=False) == log_lines.LogLine(time, "worker-0", text)


NARROW = """\
pytorchjob/mnist-of-the-first-team-in-the-queue
  STATE Restarting  READY 0/4
  RESTARTS 1  AGE 90s
  WHY worker-1 on node-a was OOMKilled…
tfjob/b
  STATE Running  READY 1/1  RESTARTS 0
  AGE 9s
"""
NARROW_TEXT = """\
Replicas
  worker-0: waiting on
  gpu-node-17.example.internal.of.a.zone
  for 98s
  worker-1: running
Next
  It ends.
"""


def test_a_terminal_of_40_columns_breaks_no_name(monkeypatch, capsys):
    monkeypatch.setattr(tables, "terminal_width", lambda: 40)
    name, why = "pytorchjob/mnist-of-the-first-team-in-the-queue", "worker-1 on node-a was OOMKilled (limit 2Gi)"
    first, second = (name, "Restarting", "0/4", "1", "90s", why), ("tfjob/b", "Running", "1/1", "0", "9s", "")
    tables.show(rows.header(namespaces=False, wide=False), [first, second])
    assert capsys.readouterr().out == NARROW
    tables.show(rows.header(namespaces=False, wide=False), [first, second], whole=True)
    assert capsys.readouterr().out.splitlines()[1].endswith(why)
    waits = "worker-0: waiting on gpu-node-17.example.internal.of.a.zone for 98s"
    for title, text in (("Replicas", waits), ("", "worker-1: running"), ("Next", "It ends.")):
        print(tables.titled(f"{title:<13}", 13, text, 40))
    assert capsys.readouterr().out == NARROW_TEXT

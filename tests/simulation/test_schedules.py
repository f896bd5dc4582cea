"""Random schedules break no promise; they are drawn, shrunk and repeated as a campaign needs it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings

from simulation import campaign
from simulation.campaign import BATCH, BYTES, REPEAT, Progress, run_batch, run_campaign
from simulation.runner import Report, run
from simulation.schedule import JobRequest, Schedule, Step, literal, patch
from simulation.strategies import WORDS, fields, job_requests, schedules, settings_of
from support.audit import api_fields
from support.audit.change import CREATED, OPERATOR, Violation
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import FRAMEWORKS

#: The number of schedules: few with the fast tests, all with those that take minutes; `make simulate` runs more.
FEW, MANY = 60, int(os.environ.get("TRAINSHED_SCHEDULES", "800"))
KNOWN = {framework.kind: framework for framework in FRAMEWORKS}
JOB = JobRequest("TFJob", "a", (("Chief", 1), ("Worker", 2)))
TRACE = "from simulation.test_schedules import traces; print(traces())"


@cache
def drawn(number: int, count: int) -> list[Schedule]:
    """Return the first schedules of a batch."""
    found: list[Schedule] = []

    @settings(database=None)
    @given(schedules())
    def collect(schedule: Schedule) -> None:
        found.append(schedule)

    random = Random(number)
    while len(found) < count:
        collect.hypothesis.fuzz_one_input(random.randbytes(BYTES))
    return found


def broken(number: int, size: int) -> str:
    """Return the promise that a batch breaks, the smallest schedule that does it, and how to repeat it."""
    failing = run_batch(number, size).failing
    return f"{failing[1].violations[0]}\n{literal(failing[0])}\n{REPEAT.format(number)}" if failing else ""


def traces() -> str:
    """Return a hash of all that happens in three schedules."""
    lines = [line for schedule in drawn(1, 3) for line in run(schedule).trace]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_few_schedules_violate_no_invariant():
    assert broken(0, FEW) == ""


@pytest.mark.fault("A18", "F2")
@pytest.mark.apiserver  # it needs none, but minutes: it runs with the slow tests
@pytest.mark.parametrize("number", range(-(-MANY // BATCH)))
def test_many_schedules_violate_no_invariant(number):
    assert broken(number, BATCH) == ""


@pytest.mark.slow
def test_a_schedule_runs_the_same_way_in_another_process_with_other_hashes():
    found = {
        subprocess.run(
            (sys.executable, "-c", TRACE),
            env={**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": "tests:hack"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for salt in ("1", "77")
    }
    assert found == {traces()}


@pytest.mark.slow
def test_a_schedule_that_violates_an_invariant_is_shrunk(monkeypatch):
    def fails(schedule: Schedule) -> Report:
        wrong = sum(step.after for step in schedule.steps if step.what == "outage") > 1
        violations = (Violation("V1", "a pod", 0.0, "an outage"),) if wrong else ()
        return Report(violations, Counter(), (), ())

    monkeypatch.setattr(campaign, "run", fails)
    batch = run_batch(0, 1000)
    assert batch.failing is not None
    small, _ = batch.failing
    assert [step.what for step in small.steps] == ["create", "outage"]
    assert [count for _, count in small.steps[0].how.roles] == [1]


def test_a_batch_without_shrinking_goes_on_after_a_schedule_that_violates_an_invariant(monkeypatch):
    ran: list[Schedule] = []

    def fails(schedule: Schedule) -> Report:
        ran.append(schedule)
        return Report((Violation("V1", "a pod", float(len(ran)), "an outage"),), Counter(), (), ())

    monkeypatch.setattr(campaign, "run", fails)
    batch = run_batch(0, 3, shrink=False)
    assert (batch.schedules, len(ran)) == (3, 3)
    assert batch.failing is not None
    assert batch.failing[0] is ran[0]


def test_a_campaign_continues_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "BATCH", 2)
    monkeypatch.setattr(campaign, "run_batch", lambda number, **how: run_batch(number, 2, **how))
    file, whole = tmp_path / "simulate.toml", Progress()
    run_campaign(6, 1, whole, lambda _: None)
    first = Progress.read(file)
    assert first == Progress()
    first.failing["0"] = "V1 with a pod"
    run_campaign(4, 1, first, lambda so_far: so_far.write(file, "make simulate N=4"))
    again = Progress.read(file)
    assert again == first
    run_campaign(6, 1, again, lambda _: None)
    assert (again.next, again.schedules, again.sums) == (3, 6, whole.sums)
    monkeypatch.setattr(campaign, "code_digest", lambda: "other")
    assert Progress.read(file) == Progress(), "the results are of other code"


def test_every_action_is_drawn():
    found = drawn(2, 300)
    known = {step.what for schedule in found for step in schedule.steps}
    assert known == WORDS.keys() - {"set replicas"}, "`set replicas` is drawn as a field"
    assert {schedule.operators for schedule in found} == {1, 2}
    assert {schedule.steps[0].how.kind for schedule in found} == KNOWN.keys()
    assert len(set(found)) == len(found)
    assert max(len(schedule.steps) for schedule in found) > 20


@pytest.mark.slow
def test_special_clusters_have_pod_groups_and_keys():
    special = [schedule for schedule in drawn(3, 80) if schedule.gang]
    changes = [change for schedule in special for change in run(schedule).changes]
    assert {change.plural for change in changes if change.verb == CREATED} >= {"podgroups", "secrets", "pods"}
    phases = {(one.after or {}).get("status", {}).get("phase") for one in changes if one.plural == "podgroups"}
    assert phases >= {"Pending", "Running"}


def test_a_printed_schedule_is_python_code():
    names = {"Schedule": Schedule, "Step": Step, "JobRequest": JobRequest}
    for schedule in drawn(2, 30):
        assert eval(literal(schedule), names) == schedule


@given(job_requests())
def test_a_drawn_job_is_valid(request):
    document = request.document()
    document["metadata"] |= {"uid": "x", "resourceVersion": "1"}
    job = parse.job(document, KNOWN[request.kind], JobDefaults())
    assert job.problems == ()
    assert 0 < job.size <= 10


@given(settings_of(JOB))
def test_a_drawn_change_is_of_a_field_of_the_crd(setting):
    path, value = setting
    of_roles = {
        f"tfReplicaSpecs.{role}.{field}" for role in ("Chief", "Worker") for field in ("replicas", "restartPolicy")
    }
    assert path in {path for path, _ in fields("TFJob")} | of_roles
    first, *_ = path.split(".")
    assert first in patch(path, value)["spec"]


# ------------------------------------------------------------------------------------------------- crashes at any write


def crashed(*crash: Step) -> Report:
    """Run a master and two workers, of which worker-1 is killed once; after the restart the job succeeds."""
    job = JobRequest("PyTorchJob", "a", (("Master", 1), ("Worker", 2)), "ExitCode", (("cleanPodPolicy", "Running"),))
    steps = (Step(0.0, "create", how=job), Step(20.0, "oom", 2, 137), Step(60.0, "not ready"))
    return run(Schedule(seed=1, steps=(*crash, *steps), finish=True))


def end(report: Report) -> tuple[object, ...]:
    """Return the true conditions at the end, the number of restarts, and the names of the pods that were created."""
    job = [one.object for one in report.changes if one.plural == "pytorchjobs"][-1]
    status = api_fields.status(job)
    true = [one["type"] for one in status["conditions"] if one["status"] == "True"]
    pods = [one for one in report.changes if one.plural == "pods" and (one.verb, one.actor) == (CREATED, OPERATOR)]
    return true, status.get("restarts"), sorted(one.object["metadata"]["name"] for one in pods)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after", "answered"])
def test_a_crash_at_any_write_does_not_change_the_end(when):
    undisturbed = crashed()
    assert end(undisturbed)[:2] == (["Created", "Succeeded"], 1)
    writes = sum(one.writes for one in undisturbed.requests)
    assert writes > 10
    for number in range(1, writes + 1):
        report = crashed(Step(0.0, "kill at write", how=(number, when)))
        assert report.violations == (), number
        assert end(report) == end(undisturbed), number

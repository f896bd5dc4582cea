"""The labels for states and causes are bounded, whatever the status contains."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.builders import T0, a_job, seen
from support.replace import replace
from trainshed.api.job import RunPolicy
from trainshed.api.status import Condition, ConditionType, Failure, Restart, Status
from trainshed.controller.metrics import CLASSES, FAILURE_CLASSES, STATES, cause_of_failure, cause_of_restart
from trainshed.plan import failures

JOB = a_job(worker=2)
FAILURE = Failure("mnist-worker-0", "Application", "Error", 1, "", "", T0)


def test_the_classes_are_the_failure_classes():
    known = (failures.APPLICATION, failures.INFRASTRUCTURE, failures.DISRUPTION, failures.HANG)
    assert (*known, "Other") == CLASSES


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), "Pending"),
        (((ConditionType.CREATED, True),), "Created"),
        (((ConditionType.CREATED, True), (ConditionType.SUSPENDED, False)), "Created"),
        (((ConditionType.CREATED, True), (ConditionType.RUNNING, False), (ConditionType.SUSPENDED, True)), "Suspended"),
        (((ConditionType.CREATED, True), (ConditionType.RUNNING, True), (ConditionType.BLOCKED, True)), "Blocked"),
        (((ConditionType.CREATED, True), (ConditionType.BLOCKED, True), (ConditionType.RUNNING, True)), "Blocked"),
        (((ConditionType.BLOCKED, True), (ConditionType.RESTARTING, True), (ConditionType.CREATED, True)), "Blocked"),
        (((ConditionType.RESTARTING, True), (ConditionType.CREATED, True)), "Restarting"),
        (((ConditionType.FAILED, True), (ConditionType.BLOCKED, True), (ConditionType.RUNNING, True)), "Failed"),
        (((ConditionType.CREATED, True), (ConditionType.RUNNING, False), (ConditionType.SUCCEEDED, True)), "Succeeded"),
    ],
)
def test_the_state_is_the_worst_that_is_true_in_any_order(conditions, expected):
    status = Status(conditions=tuple(Condition(kind, true, "r", "m", T0, T0) for kind, true in conditions))
    assert status.current_state == expected
    assert expected in STATES


def a_restart(kind: str) -> Restart:
    return Restart(T0, 1, "worker-0", "", kind, "r", 1, 2)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), ("Disruption",), "Disruption"),
        (("Application",), ("Application", "Infrastructure"), "Infrastructure"),
        (("Application",), ("Application",), "Other"),
        ((), ("Cascading",), "Other"),
        ((), (), "Other"),
    ],
)
def test_a_restart_has_the_class_of_its_failure(before, after, expected):
    was, now = (Status(recent_restarts=tuple(map(a_restart, kinds))) for kinds in (before, after))
    assert cause_of_restart(was, now) == expected


@pytest.mark.parametrize(
    ("problems", "deadline", "seconds", "failure", "expected"),
    [
        (("spec: wrong",), 1, 5, FAILURE, "Invalid"),
        ((), 5, 5, FAILURE, "Deadline"),
        ((), 6, 5, FAILURE, "Application"),
        ((), None, 5, replace(FAILURE, kind="Infrastructure"), "Infrastructure"),
        ((), None, 5, replace(FAILURE, kind="Cascading"), "Other"),
        ((), None, 5, None, "Other"),
    ],
)
def test_a_failed_job_has_the_cause_of_the_first_matching_rule(problems, deadline, seconds, failure, expected):
    job = replace(JOB, problems=problems, policy=RunPolicy(deadline=deadline))
    snapshot = replace(seen(job), now=T0 + timedelta(seconds=seconds))
    assert cause_of_failure(snapshot, Status(start=T0, failure=failure)) == expected
    assert expected in FAILURE_CLASSES

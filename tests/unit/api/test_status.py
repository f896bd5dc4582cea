"""The status of a job, and the parts of it that must be stored before an action."""

from __future__ import annotations

import pytest

from support.builders import at
from support.replace import replace
from trainshed.api.status import Condition, ConditionType, Failure, ReplicaStatus, Restart, Retries, Status
from trainshed.api.training import trainer_status


def condition(kind, *, true=True):
    return Condition(ConditionType(kind), true, "R", "m", at(0), at(0))


FULL = Status(conditions=(condition("Created"), condition("Running")), start=at(0), pending_replacement=("a", "b"))


def test_conditions_are_found_by_their_type():
    assert FULL.condition(ConditionType.RUNNING).reason == "R"
    assert FULL.condition(ConditionType.FAILED) is None
    assert FULL.true(ConditionType.CREATED)
    assert not replace(FULL, conditions=(condition("Running", true=False),)).true(ConditionType.RUNNING)


@pytest.mark.parametrize(("kind", "over"), [("Succeeded", True), ("Failed", True), ("Running", False)])
def test_a_job_with_a_verdict_is_over(kind, over):
    assert Status(conditions=(condition(kind),)).over is over


REPORTED = Status(conditions=(condition("Running"),), start=at(0), trainer=trainer_status(at(60), step=7))
RESTART = Restart(at(30), 1, "worker-0", "node-a", "Application", "Error", 1, 4, recovery_seconds=20)


@pytest.mark.parametrize(
    ("status", "trains"),
    [
        (REPORTED, True),
        (replace(REPORTED, trainer=None), False),
        (replace(REPORTED, conditions=(*REPORTED.conditions, condition("Succeeded"))), False),
        (replace(REPORTED, conditions=(condition("Created"),)), False),
        (replace(REPORTED, conditions=(*REPORTED.conditions, condition("Stalled"))), False),
        (replace(REPORTED, recent_restarts=(RESTART,)), True),
        (replace(REPORTED, recent_restarts=(replace(RESTART, recovery_seconds=40),)), False),
        (replace(REPORTED, conditions=(*REPORTED.conditions, condition("Blocked"))), True),
        (replace(REPORTED, conditions=(*REPORTED.conditions, replace(condition("Blocked"), changed=at(61)))), False),
        (replace(REPORTED, conditions=(*REPORTED.conditions, condition("Suspended", true=False))), True),
    ],
)
def test_a_training_advances_if_it_has_reported_since_it_last_stood_still(status, trains):
    assert status.trains is trains


@pytest.mark.parametrize(
    "after",
    [
        replace(FULL, completion=at(1)),
        replace(FULL, attempts={"Worker": 1}),
        replace(FULL, retries=Retries(used=1)),
        replace(FULL, retries=Retries(next_retry_time=at(1))),
        replace(FULL, pending_replacement=("a", "b", "c")),
        replace(FULL, failure=Failure("p", "Application", "Error", 1, "", "", at(0))),
        replace(FULL, conditions=(*FULL.conditions, condition("Suspended"))),
        replace(FULL, conditions=(*FULL.conditions, condition("Failed"))),
    ],
)
def test_what_pods_cannot_tell_again_is_stored_before_it_is_acted_on(after):
    assert after.must_precede(FULL)


@pytest.mark.parametrize(
    "after",
    [
        FULL,
        replace(FULL, replica_statuses={"Worker": ReplicaStatus(active=1)}),
        replace(FULL, conditions=FULL.conditions[:1]),
        replace(FULL, pending_replacement=("a",)),
        replace(FULL, retries=Retries(container_restarts=3)),
    ],
)
def test_what_pods_can_tell_again_may_wait(after):
    assert not after.must_precede(FULL)


@pytest.mark.parametrize(("seconds", "wait"), [(-1, False), (0, False), (1, True), (375, True), (3600, False)])
def test_the_next_pods_wait_for_their_time_but_not_for_that_of_a_clock_that_is_far_ahead(seconds, wait):
    assert Retries(next_retry_time=at(seconds)).wait(at(0)) is wait
    assert not Retries().wait(at(0))

"""Counts are written with a delay and once; facts that cannot be computed again are written at once."""

from __future__ import annotations

from support.builders import at
from support.replace import replace
from trainshed.api.indexes import Indexes
from trainshed.api.job import JobKey
from trainshed.api.status import Condition, ConditionType, ReplicaStatus, Status
from trainshed.controller.status_writes import (
    AFTER_FAILURE,
    DEBOUNCE,
    MAX_DEBOUNCE,
    MAX_FIRST_DELAY,
    PROGRESS,
    StatusDebounce,
)

KEY = JobKey("ml", "TFJob", "mnist")
CREATED = Condition(ConditionType.CREATED, True, "r", "m", at(0), at(0))
STORED = Status((CREATED,), {"Worker": ReplicaStatus(active=4)})


def counted(ready: int) -> Status:
    return Status((CREATED,), {"Worker": ReplicaStatus(active=4, ready=ready)})


def test_counts_are_written_after_a_quiet_period():
    patience = StatusDebounce()
    assert patience.until(KEY, (STORED, counted(1)), at(0)) == at(0) + DEBOUNCE
    assert patience.until(KEY, (STORED, counted(2)), at(0.1)) == at(0.1) + DEBOUNCE
    assert patience.until(KEY, (STORED, counted(2)), at(0.2)) == at(0.1) + DEBOUNCE
    assert patience.until(KEY, (STORED, counted(2)), at(0.41)) is None


def test_changing_counts_are_written_after_the_longest_delay():
    patience = StatusDebounce()
    begun = at(0)
    times = [at(tenth / 10) for tenth in range(40)]
    due = [patience.until(KEY, (STORED, counted(number)), now) is None for number, now in enumerate(times, 1)]
    assert times[due.index(True)] == begun + MAX_DEBOUNCE
    assert due.count(True) == 1, "then a new delay starts"


def test_a_status_without_pods_waits_for_the_next_change():
    wanted = Status((CREATED,), {"Worker": ReplicaStatus()})
    assert StatusDebounce().until(KEY, (STORED, wanted), at(0)) == at(0) + MAX_DEBOUNCE


def test_the_first_status_waits_for_the_first_pods_but_not_for_all():
    patience, began = StatusDebounce(), at(0)
    assert patience.until(KEY, (Status(), Status((CREATED,))), began) == began + MAX_FIRST_DELAY
    assert patience.until(KEY, (Status(), counted(0)), at(0.1)) == at(0.1) + DEBOUNCE, "they are all there"
    times = [at(tenth / 10) for tenth in range(2, 20)]
    due = [patience.until(KEY, (Status(), counted(number)), now) is None for number, now in enumerate(times)]
    assert times[due.index(True)] == began + MAX_FIRST_DELAY, "more come all the time"


def test_the_first_status_is_there_after_a_second_and_the_next_change_waits_as_all_do():
    patience = StatusDebounce()
    patience.until(KEY, (Status(), Status((CREATED,))), at(0))
    assert patience.until(KEY, (Status(), Status((CREATED,))), at(0.8)) is None
    patience.stored(KEY, Status(), at(0.8))
    times = [at(0.8 + tenth / 10) for tenth in range(40)]
    due = [patience.until(KEY, (STORED, counted(number)), now) is None for number, now in enumerate(times, 1)]
    assert times[due.index(True)] == at(0.8) + MAX_DEBOUNCE


def test_a_terminal_condition_is_written_at_once():
    failed = Condition(ConditionType.FAILED, True, "r", "m", at(0), at(0))
    assert StatusDebounce().until(KEY, (STORED, replace(counted(1), conditions=(failed,))), at(0)) is None


def test_a_stored_status_is_not_delayed():
    patience = StatusDebounce()
    patience.until(KEY, (STORED, counted(1)), at(0))
    assert patience.until(KEY, (STORED, STORED), at(0.1)) is None
    assert patience.until(KEY, (STORED, counted(1)), at(5)) == at(5) + DEBOUNCE, "the first delay has ended"


def test_a_forgotten_job_starts_a_new_delay():
    patience = StatusDebounce()
    patience.until(KEY, (STORED, counted(1)), at(0))
    patience.forget(KEY)
    assert patience.until(KEY, (STORED, counted(1)), at(5)) == at(5) + DEBOUNCE


FAILED = Condition(ConditionType.FAILED, True, "r", "m", at(0), at(0))


def after_failure(active: int) -> Status:
    return Status((FAILED,), {"Worker": ReplicaStatus(active=active)})


def test_the_counts_of_a_failed_job_are_written_when_no_pod_runs_any_more():
    patience = StatusDebounce()
    assert patience.until(KEY, (after_failure(4), after_failure(3)), at(0)) == at(0) + AFTER_FAILURE
    assert patience.until(KEY, (after_failure(4), after_failure(0)), at(5)) == at(5) + DEBOUNCE
    assert patience.until(KEY, (after_failure(4), after_failure(0)), at(5) + DEBOUNCE) is None


def test_the_counts_of_a_failed_job_are_written_once_a_minute_at_most():
    patience, stored, writes = StatusDebounce(), 200, []
    for second in range(200):
        left = 199 - second
        if patience.until(KEY, (after_failure(stored), after_failure(left)), at(second)) is None and left != stored:
            patience.stored(KEY, after_failure(stored), at(second))
            stored = left
            writes.append(second)
    assert writes == [60, 121, 182]
    assert patience.until(KEY, (after_failure(stored), after_failure(0)), at(200)) is None, "the last does not wait"


def test_a_failed_write_of_the_counts_is_repeated_at_once():
    patience = StatusDebounce()
    patience.until(KEY, (after_failure(2), after_failure(0)), at(0))
    assert patience.until(KEY, (after_failure(2), after_failure(0)), at(1)) is None
    assert patience.until(KEY, (after_failure(2), after_failure(0)), at(1)) == at(1) + DEBOUNCE


def test_a_failed_job_whose_status_was_removed_is_not_delayed():
    patience = StatusDebounce()
    patience.stored(KEY, after_failure(2), at(0))
    assert patience.until(KEY, (Status(), counted(1)), at(1)) == at(1) + DEBOUNCE


def test_the_first_status_of_a_big_job_comes_before_its_pods():
    assert StatusDebounce().until(KEY, (Status(), Status((CREATED,))), at(0), creating=True) is None


def test_while_many_pods_are_created_the_status_is_written_every_five_seconds():
    patience, stored, writes = StatusDebounce(), Status(), []
    for second in range(16):
        wanted = Status((CREATED,), {"Worker": ReplicaStatus(active=second)})
        if patience.until(KEY, (stored, wanted), at(second), creating=True) is None:
            patience.stored(KEY, stored, at(second), creating=True)
            stored = wanted
            writes.append(second)
    assert writes == [0, 5, 10, 15]
    assert patience.until(KEY, (stored, counted(1)), at(16)) == at(15) + PROGRESS
    assert patience.until(KEY, (stored, counted(1)), at(20)) is None
    patience.stored(KEY, stored, at(20))
    assert patience.until(KEY, (counted(1), counted(2)), at(21)) == at(21) + DEBOUNCE, "then it is as small jobs are"


def test_the_status_is_written_at_once_when_all_replicas_are_ready_or_have_succeeded():
    patience = StatusDebounce()
    assert patience.until(KEY, (STORED, counted(3)), at(0), size=4) == at(0) + DEBOUNCE
    assert patience.until(KEY, (STORED, counted(4)), at(0.1), size=4) is None
    assert patience.until(KEY, (counted(4), counted(3)), at(0.2), size=4) == at(0.2) + DEBOUNCE, (
        "one is not ready again"
    )
    ended = Status((CREATED,), {"Worker": ReplicaStatus(active=3, ready=3, done=Indexes.of([0]))})
    assert patience.until(KEY, (counted(3), ended), at(0.3), size=4) is None


def test_the_status_of_a_large_job_is_written_at_once_when_its_last_pod_is_ready():
    patience = StatusDebounce()
    patience.stored(KEY, STORED, at(0), creating=True)
    assert patience.until(KEY, (STORED, counted(3)), at(1), size=4) == at(0) + PROGRESS
    assert patience.until(KEY, (STORED, counted(4)), at(1.1), size=4) is None


def test_the_first_status_of_a_job_that_starts_suspended_waits_for_its_creator():
    suspended = Condition(ConditionType.SUSPENDED, True, "r", "m", at(0), at(0))
    wanted = Status((CREATED, suspended), {"Worker": ReplicaStatus()})
    patience = StatusDebounce()
    assert patience.until(KEY, (Status(), wanted), at(0)) == at(1)
    assert patience.until(KEY, (Status(), wanted), at(1)) is None
    assert patience.until(KEY, (STORED, wanted), at(2)) is None, "a job that ran is suspended at once"
    for had_pods in ({"replica_statuses": {"Worker": ReplicaStatus(not_running=1)}}, {"attempts": {"Worker": 1}}):
        assert patience.until(KEY, (Status(), replace(wanted, **had_pods)), at(2)) is None


def test_a_queue_learns_at_once_that_a_job_holds_resources():
    stored = Status((CREATED,), {"Worker": ReplicaStatus()})
    pending = Status((CREATED,), {"Worker": ReplicaStatus(not_running=1)})
    assert StatusDebounce().until(KEY, (stored, pending), at(0)) is None
    more = Status((CREATED,), {"Worker": ReplicaStatus(active=1, not_running=1)})
    assert StatusDebounce().until(KEY, (pending, more), at(0)) == at(0) + DEBOUNCE


def test_a_queue_learns_at_once_that_a_suspended_job_holds_nothing_any_more():
    suspended = Condition(ConditionType.SUSPENDED, True, "r", "m", at(0), at(0))
    stored = Status((suspended,), {"Worker": ReplicaStatus(active=1)})
    freed = Status((suspended,), {"Worker": ReplicaStatus()})
    assert StatusDebounce().until(KEY, (stored, freed), at(0)) is None

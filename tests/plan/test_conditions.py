"""Setting conditions: which exclude each other, and when their times change."""

from __future__ import annotations

from make import at, states
from trainshed.api.status import ConditionType, Status
from trainshed.plan.conditions import Word, put, without


def word(kind, reason="R", message="m"):
    return Word(ConditionType(kind), reason, message)


def sequence(*kinds):
    status = Status()
    for second, kind in enumerate(kinds):
        status = put(status, word(kind.lstrip("-")), at(second), true=not kind.startswith("-"))
    return states(status)


def test_running_and_restarting_exclude_each_other():
    assert sequence("Created", "Running", "Restarting") == ["Created", "Restarting"]
    assert sequence("Created", "Running", "Restarting", "Running") == ["Created", "Running"]


def test_a_verdict_ends_the_running_in_place_and_drops_what_no_longer_matters():
    assert sequence("Created", "Running", "Failed") == ["Created", "-Running", "Failed"]
    assert sequence("Created", "Restarting", "Blocked", "Succeeded") == ["Created", "Succeeded"]


def test_after_a_verdict_nothing_changes():
    assert sequence("Failed", "Running", "Succeeded") == ["Failed"]
    assert sequence("Succeeded", "Failed") == ["Succeeded"]


def test_saying_the_same_again_changes_nothing_but_blocked_may_say_more():
    once = put(Status(), word("Created"), at(0))
    assert put(once, word("Created", message="other"), at(9)) is once
    blocked = put(Status(), word("Blocked"), at(0))
    assert put(blocked, word("Blocked", message="other"), at(9)).conditions[0].message == "other"
    assert put(blocked, word("Blocked"), at(9)) is blocked


def test_a_new_reason_moves_one_clock_a_new_truth_both():
    first = put(Status(), word("Suspended"), at(0))
    reason = put(first, word("Suspended", "Other"), at(5)).conditions[0]
    assert (reason.updated, reason.changed) == (at(5), at(0))
    truth = put(first, word("Suspended", "Other"), at(5), true=False).conditions[0]
    assert (truth.updated, truth.changed) == (at(5), at(5))


def test_the_truth_of_running_flips_without_moving_its_clocks_at_the_end():
    status = put(put(Status(), word("Running"), at(0)), word("Succeeded"), at(9))
    assert (status.conditions[0].updated, status.conditions[0].true) == (at(0), False)


def test_taking_back_what_was_not_said_changes_nothing():
    status = put(Status(), word("Created"), at(0))
    assert without(status, ConditionType.BLOCKED) is status
    assert states(without(status, ConditionType.CREATED)) == []

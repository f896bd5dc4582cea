"""Setting conditions: which exclude each other, and when their times change."""

from __future__ import annotations

from datetime import UTC, datetime

from support.builders import at, states
from trainshed.api.status import ConditionType, Status
from trainshed.plan.conditions import ConditionUpdate, remove_conditions, set_condition


def word(kind, reason="R", message="m"):
    return ConditionUpdate(ConditionType(kind), reason, message)


def sequence(*kinds):
    status = Status()
    for second, kind in enumerate(kinds):
        status = set_condition(status, word(kind.lstrip("-")), at(second), true=not kind.startswith("-"))
    return states(status)


def test_texts_of_a_condition_are_one_printable_line():
    update = word("Failed", "R\n", "two\nlines\x1b[2J")
    assert update.reason.isprintable()
    assert update.message.isprintable()


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
    once = set_condition(Status(), word("Created"), at(0))
    assert set_condition(once, word("Created", message="other"), at(9)) is once
    blocked = set_condition(Status(), word("Blocked"), at(0))
    assert set_condition(blocked, word("Blocked", message="other"), at(9)).conditions[0].message == "other"
    assert set_condition(blocked, word("Blocked"), at(9)) is blocked


def test_a_new_reason_moves_one_clock_a_new_truth_both():
    first = set_condition(Status(), word("Suspended"), at(0))
    reason = set_condition(first, word("Suspended", "Other"), at(5)).conditions[0]
    assert (reason.updated, reason.changed) == (at(5), at(0))
    truth = set_condition(first, word("Suspended", "Other"), at(5), true=False).conditions[0]
    assert (truth.updated, truth.changed) == (at(5), at(5))


def test_the_truth_of_running_flips_without_moving_its_clocks_at_the_end():
    status = set_condition(set_condition(Status(), word("Running"), at(0)), word("Succeeded"), at(9))
    assert (status.conditions[0].updated, status.conditions[0].true) == (at(0), False)


def test_a_condition_that_becomes_true_is_newer_than_the_other_true_ones():
    status = Status()
    for kind in ("Created", "Blocked", "Running", "Suspended"):
        status = set_condition(status, word(kind), at(0))
    created, running, suspended, blocked = status.conditions
    assert (created.changed, running.changed, suspended.changed) == (at(0), at(1), at(2))
    assert blocked.changed == at(0)
    assert set_condition(status, word("Failed"), at(60)).conditions[-1].changed == at(60)


def test_a_time_of_a_clock_that_was_far_ahead_is_ignored():
    ahead = set_condition(Status(), word("Created"), datetime.max.replace(tzinfo=UTC))
    assert set_condition(ahead, word("Running"), at(0)).conditions[-1].changed == at(0)


def test_taking_back_what_was_not_said_changes_nothing():
    status = set_condition(Status(), word("Created"), at(0))
    assert remove_conditions(status, ConditionType.BLOCKED) is status
    assert states(remove_conditions(status, ConditionType.CREATED)) == []

"""Parsing of a stored status; tests/unit/api/test_status_codec.py parses what the operator writes."""

from __future__ import annotations

import pytest

from support.builders import at
from trainshed.api.coerce import LARGEST, SMALLEST
from trainshed.api.status import Status
from trainshed.api.status_codec import parse_status


def test_a_forged_status_is_passed_over():
    forged = {
        "conditions": [5, {"type": "Nonsense"}],
        "startTime": "yesterday",
        "restarts": "many",
        "podsPendingReplacement": 3,
    }
    assert parse_status({"status": forged}) == Status()
    times = {"conditions": [{"type": "Created", "status": "True"}], "startTime": "2026-01-01T12:00:00"}
    found = parse_status({"status": times})
    assert found.start == at(0)
    assert found.conditions[0].true
    assert parse_status({"status": {"failure": {"pod": "x"}, "recentRestarts": [{"replica": "x"}, 7]}}) == Status()


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-13-01T00:00:00Z", ""])
def test_a_time_that_is_none_is_passed_over(time):
    assert parse_status({"status": {"startTime": time}}).start is None


def test_of_several_conditions_of_a_type_the_first_counts():
    items = [
        {"type": "Failed", "status": status, "lastUpdateTime": "2026-01-01T12:00:00Z"} for status in ("False", "True")
    ]
    (found,) = parse_status({"status": {"conditions": items}}).conditions
    assert not found.true


def test_numbers_that_no_status_can_hold_are_the_largest_that_it_can():
    absurd = {
        "restarts": 2**63,
        "failure": {"time": "2026-01-01T12:00:00Z", "exitCode": -(2**40), "runDurationSeconds": True},
    }
    found = parse_status({"status": absurd})
    assert found.retries.used == LARGEST
    assert (found.failure.exit_code, found.failure.ran) == (SMALLEST, None)

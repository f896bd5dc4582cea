"""What a training says of itself is fit for a status, a table and a terminal, whatever it has written."""

from __future__ import annotations

import pytest

from support.builders import at
from trainshed.api import status_codec
from trainshed.api.coerce import json_size
from trainshed.api.status import Status
from trainshed.api.trainer_status import TrainerStatus
from trainshed.api.training import MAX_METRICS, MAX_METRICS_BYTES, pace, parse_report, trainer_status

#: What transformers 5 posts.
POSTED = {
    "progressPercentage": 52,
    "estimatedRemainingSeconds": 480,
    "metrics": [
        {"name": "current_step", "value": "520"},
        {"name": "total_steps", "value": "1000"},
        {"name": "current_epoch", "value": "1.56"},
        {"name": "loss", "value": "0.31"},
    ],
    "lastUpdatedTime": "2026-01-01T12:00:00.123456+00:00",
}


def test_a_report_is_stored_as_it_came_and_its_steps_have_fields():
    report = parse_report(POSTED, at(7))
    stored = status_codec.status_document(Status(trainer=report))["trainerStatus"]
    more = {"step": 520, "totalSteps": 1000, "epoch": 1.56}
    assert stored == POSTED | more | {"lastUpdatedTime": "2026-01-01T12:00:07Z"}
    assert status_codec.parse_status({"status": {"trainerStatus": stored}}).trainer == report
    assert parse_report({"metrics": [{"name": "loss"}]}, at(7)) is parse_report(5, at(7)) is None
    assert status_codec.parse_status({"status": {"trainerStatus": POSTED | {"lastUpdatedTime": "now"}}}).trainer is None


@pytest.mark.parametrize(
    ("found", "known"),
    [
        ({"percentage": 250, "step": -1, "total_steps": float("nan")}, {"percentage": 100}),
        ({"percentage": True, "epoch": "x", "steps_per_second": [1]}, {}),
        ({"step": 10**400, "epoch": 1e300}, {"epoch": 2147483647.0}),
        ({"step": 3, "total_steps": 0}, {"step": 3, "total_steps": 0}),
        ({"step": 999, "total_steps": 1000}, {"step": 999, "total_steps": 1000, "percentage": 99}),
        ({"step": 1001, "total_steps": 1000}, {"step": 1001, "total_steps": 1000, "percentage": 100}),
        ({"remaining_seconds": 7.9, "steps_per_second": 1 / 3}, {"remaining_seconds": 7, "steps_per_second": 0.3333}),
        ({"metrics": [("loss\x1b[2J\n", "0.5\u202e"), ("", "1"), ("x", None)]}, {"metrics": (("loss", "0.5"),)}),
        ({"metrics": [("loss", 0.123456), ("n", 7), ("loss", "0.2")]}, {"metrics": (("loss", "0.2"), ("n", "7"))}),
    ],
)
def test_what_is_out_of_range_is_left_out_and_text_is_harmless(found, known):
    assert trainer_status(at(0), **found) == TrainerStatus(at(0), **known)


def test_metrics_are_few_and_short():
    many = trainer_status(at(0), [(f"m{number}", "1") for number in range(99)])
    assert len(many.metrics) == MAX_METRICS
    large = trainer_status(at(0), [(f"{number}" + "<" * 99, "\u2028é" * 99) for number in range(99)])
    assert json_size([{"name": name, "value": value} for name, value in large.metrics]) <= MAX_METRICS_BYTES
    assert all(json_size(text) <= 66 for pair in large.metrics for text in pair)


@pytest.mark.parametrize(
    ("found", "column"),
    [
        ({"percentage": 52, "remaining_seconds": 480}, "52%, 8m left"),
        ({"percentage": 0}, "0%"),
        ({"step": 7, "remaining_seconds": 0}, "step 7"),
        ({"step": 7, "remaining_seconds": 119}, "step 7, 119s left"),
        ({"percentage": 1, "remaining_seconds": 40 * 3600}, "1%, 40h left"),
        ({"percentage": 1, "remaining_seconds": 2**40}, "1%, 24855d left"),
        ({"epoch": 2, "remaining_seconds": 5}, ""),
    ],
)
def test_a_table_shows_the_part_that_is_done_and_the_time_left(found, column):
    assert trainer_status(at(0), **found).column == column


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([], None),
        ([(0, 5)], None),
        ([(0, 0), (10, 10)], 1.0),
        ([(0, 0), (10, 10), (20, 30)], 1.5),
        ([(0, 0), (10, 10), (20, 20), (30, 30), (630, 40), (640, 50)], 1.0),
        ([(0, 0), (10, 10), (20, 20), (49, 30)], 30 / 49),
        ([(0, 0), (10, 10), (20, 20), (30, 30), (79, 40)], 40 / 79),
        ([(0, 0), (10, 10), (110, 20), (120, 30), (220, 40)], 40 / 220),
        ([(0, 0), (10, 10), (310, 11)], 11 / 310),
        ([(0, 0), (0, 10), (0, 20), (40, 30)], 30 / 40),
    ],
    ids=[
        *("none", "one", "two", "the-mean", "a-hang-that-ended", "a-short-pause", "less-than-five-times"),
        *("a-pause-that-comes-again", "too-few-to-tell", "all-others-at-once"),
    ],
)
def test_the_pace_leaves_out_one_pause_that_is_much_longer_than_all_other_intervals(steps, wanted):
    assert pace(steps) == pytest.approx(wanted)

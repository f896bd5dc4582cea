"""Pieces of a document that anybody may have written."""

from __future__ import annotations

import pytest

from make import at
from trainshed.api.pieces import EARLIEST, LATEST, count, integer, mapping, sequence, text, time, within
from trainshed.api.status_schema import LARGEST


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (0, 0), (-1, 0), (True, 0), ("3", 0), (3.5, 0), (None, 0)])
def test_only_a_whole_number_that_is_not_negative_is_one(value, expected):
    assert integer(value) == expected


def test_what_is_no_mapping_and_no_list_is_an_empty_one():
    assert (mapping({"a": 1}), mapping([1]), mapping(None)) == ({"a": 1}, {}, {})
    assert (sequence([1]), sequence({"a": 1}), sequence(None)) == ([1], [], [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01T12:00:00Z", at(0)),
        ("2026-01-01T13:00:05+01:00", at(5)),
        ("2026-01-01T12:00:00", at(0)),
        ("soon", None),
        (5, None),
    ],
)
def test_a_time_is_in_utc_whatever_zone_it_was_written_in(value, expected):
    assert time(value) == expected


@pytest.mark.parametrize(
    "value", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "3000-01-01T00:00:01Z", "9999-12-31"]
)
def test_a_time_that_no_clock_shows_is_none(value):
    assert time(value) is None


def test_the_first_and_the_last_time_are_times():
    assert (within(EARLIEST), within(LATEST), within(None)) == (EARLIEST, LATEST, None)
    assert within(EARLIEST.replace(tzinfo=None)) == EARLIEST


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (LARGEST + 1, LARGEST), (-1, 0), ("3", 0)])
def test_a_count_is_no_larger_than_what_can_be_stored(value, expected):
    assert count(value) == expected


def test_what_is_no_text_is_an_empty_one():
    assert (text("a"), text(None), text({"a": 1})) == ("a", "", "")

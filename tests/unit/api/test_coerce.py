"""Parsing of untrusted values in a document."""

from __future__ import annotations

import pytest

from support.builders import at
from trainshed.api.coerce import (
    EARLIEST,
    LARGEST,
    LATEST,
    as_mapping,
    as_sequence,
    parse_count,
    parse_integer,
    parse_text,
    parse_time,
    within_time_range,
)


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (0, 0), (-1, 0), (True, 0), ("3", 0), (3.5, 0), (None, 0)])
def test_only_a_whole_number_that_is_not_negative_is_one(value, expected):
    assert parse_integer(value) == expected


def test_what_is_no_mapping_and_no_list_is_an_empty_one():
    assert (as_mapping({"a": 1}), as_mapping([1]), as_mapping(None)) == ({"a": 1}, {}, {})
    assert (as_sequence([1]), as_sequence({"a": 1}), as_sequence(None)) == ([1], [], [])


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
    assert parse_time(value) == expected


@pytest.mark.parametrize(
    "value", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "3000-01-01T00:00:01Z", "9999-12-31"]
)
def test_a_time_that_no_clock_shows_is_none(value):
    assert parse_time(value) is None


def test_the_first_and_the_last_time_are_times():
    assert (within_time_range(EARLIEST), within_time_range(LATEST), within_time_range(None)) == (EARLIEST, LATEST, None)
    assert within_time_range(EARLIEST.replace(tzinfo=None)) == EARLIEST


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (LARGEST + 1, LARGEST), (-1, 0), ("3", 0)])
def test_a_count_is_no_larger_than_what_can_be_stored(value, expected):
    assert parse_count(value) == expected


def test_what_is_no_text_is_an_empty_one():
    assert (parse_text("a"), parse_text(None), parse_text({"a": 1})) == ("a", "", "")

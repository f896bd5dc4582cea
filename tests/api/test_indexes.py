"""A set of indexes that prints itself in little space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.api.indexes import LIMIT, Indexes


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 3, 7], "0-3,7"), ([5, 4, 4], "4-5"), ([0, 2], "0,2")]
)
def test_it_prints_ranges(indexes, text):
    assert str(Indexes.of(indexes)) == text


@given(st.sets(st.integers(0, 500)))
def test_what_it_prints_it_reads_again(indexes):
    found = Indexes.of(indexes)
    assert Indexes.parse(str(found)) == found
    assert set(found) == indexes
    assert len(found) == len(indexes)
    assert all(index in found for index in indexes)
    assert 501 not in found


@given(st.text())
def test_any_text_can_be_read(text):
    Indexes.parse(text)


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1-x", "1--2", "9-1", "100000", "1" * 5000])
def test_a_part_that_is_no_range_is_left_out(text):
    assert Indexes.parse(text) == Indexes()


def test_a_range_without_end_does_not_fill_the_memory():
    assert len(Indexes.parse("0-99999999999")) == 100_000


def test_many_ranges_do_not_fill_the_time():
    assert Indexes.parse(",".join(["0-99999"] * 100_000)).ranges == ((0, 99_999),)


def test_a_long_set_forgets_its_end_rather_than_growing():
    assert len(str(Indexes.of(range(0, 100_000, 2)))) <= LIMIT


def test_two_sets_are_one():
    assert Indexes.of([0, 1]) | Indexes.of([2, 9]) == Indexes.of([0, 1, 2, 9])

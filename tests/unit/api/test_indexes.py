"""A set of indexes that prints itself in little space."""

from __future__ import annotations

import base64
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.api.indexes import MAP, READABLE, Indexes

ROOM = 4096
#: The bytes that a set of random indexes may take.
SURE = 6 * ROOM - 150


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 3, 7], "0-3,7"), ([5, 4, 4], "4-5"), ([0, 2], "0,2")]
)
def test_it_prints_ranges(indexes, text):
    assert Indexes.of(indexes).text(ROOM) == text


@given(st.sets(st.integers(0, 500)))
def test_what_it_prints_it_reads_again(indexes):
    found = Indexes.of(indexes)
    assert Indexes.parse(found.text(ROOM)) == found
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


@pytest.mark.parametrize("step", [2, 3, 7, 1000])
def test_regular_gaps_take_little_space_however_big_the_job(step):
    found = Indexes.of(range(0, 100_000, step))
    text = found.text(READABLE)
    assert len(text) <= READABLE
    assert Indexes.parse(text) == found


@pytest.mark.parametrize(("size", "likely"), [(SURE, 0.5), (SURE, 0.9), (100_000, 0.01), (100_000, 0.99)])
def test_any_set_of_a_job_that_is_not_too_big_is_remembered_whole(size, likely):
    random = Random(7)
    found = Indexes.of(index for index in range(size) if random.random() < likely)
    text = found.text(ROOM)
    assert len(text) <= ROOM
    assert Indexes.parse(text) == found


@given(st.sets(st.integers(0, 99_999), max_size=400), st.integers(0, 400))
def test_what_does_not_fit_is_forgotten_from_the_end(indexes, room):
    found = Indexes.of(indexes)
    text = found.text(room)
    kept = sorted(Indexes.parse(text))
    assert len(text) <= room
    assert kept == sorted(indexes)[: len(kept)]


def test_much_is_remembered_of_what_is_too_much():
    random = Random(7)
    found = Indexes.of(index for index in range(100_000) if random.random() < 0.5)
    kept = Indexes.parse(found.text(ROOM))
    assert set(kept) <= set(found)
    assert len(kept) > 0.9 * SURE / 2
    assert Indexes.of([100_000]).text(4) == ""


def packed(content: bytes) -> str:
    return MAP + base64.b64encode(zlib.compress(content)).decode()


@pytest.mark.parametrize("text", [MAP, f"{MAP}x", f"{MAP}aGVsbG8=", f"{MAP}ü", packed(b"\0" * 9)])
def test_a_forged_map_holds_nothing(text):
    assert Indexes.parse(text) == Indexes()


def test_a_map_without_end_does_not_fill_the_memory():
    assert Indexes.parse(packed(b"\xff" * 10**7)).ranges == ((0, 99_999),)


def test_two_sets_are_one():
    assert Indexes.of([0, 1]) | Indexes.of([2, 9]) == Indexes.of([0, 1, 2, 9])


@given(st.sets(st.integers(0, 30)), st.integers(0, 35))
def test_those_below_a_number_are_those_that_are_smaller(indexes, count):
    assert Indexes.of(indexes).below(count) == Indexes.of(index for index in indexes if index < count)

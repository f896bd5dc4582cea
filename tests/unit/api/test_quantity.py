"""Amounts as Kubernetes reads and writes them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.api import quantities

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e2", "E-3"]
TEXTS = st.builds("{}{}".format, st.decimals(-(10**9), 10**9, places=3), st.sampled_from(SUFFIXES))


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", "0"),
        ("1", "1"),
        (2, "2"),
        (0.5, "0.5"),
        ("500m", "0.5"),
        ("1.5Gi", "1610612736"),
        ("2k", "2000"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("1E", "1e18"),
        ("-.5", "-0.5"),
        ("+1.", "1"),
        ("3u", "0.000003"),
        ("7n", "0.000000007"),
    ],
)
def test_an_amount_is_read(text, amount):
    assert quantities.parse_quantity(text) == Decimal(amount)


NONE = ["", "x", "1 Gi", "1gi", "1K", "Gi", "1e", "1e3Gi", "nan", "\u0661", "1" * 31, True, None, ["1"], float("inf")]


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_amount_is_none(text):
    assert quantities.parse_quantity(text) is None


@pytest.mark.parametrize(
    ("amounts", "written"),
    [
        ([], "0"),
        ([("x", 3)], "0"),
        ([("1", 2), ("500m", 1)], "2500m"),
        ([("500m", 2)], "1"),
        ([("1", 1000)], "1k"),
        ([("512Mi", 2)], "1Gi"),
        ([("512Mi", 3)], "1536Mi"),
        ([("1Gi", 1), ("1G", 1)], "2073741824"),
        ([("1G", 1), ("1Gi", 1)], "2073741824"),
        ([("1000", 1), ("24", 1)], "1024"),
        ([("1Ki", 1), ("1", 1)], "1025"),
        ([("1Ki", 1), ("976", 1)], "2000"),
        ([("1Ki", 1), ("-24", 1)], "1k"),
        ([("100Ki", 10)], "1000Ki"),
        ([("x", 1), ("1Gi", 1)], "1Gi"),
        ([(1, 1), (2, 2)], "5"),
        ([("0.1n", 1)], "1n"),
        ([("1e40", 2)], "9223372036854775807"),
        ([("-1e40", 1)], "-9223372036854775807"),
        ([("1", 0)], "0"),
    ],
)
def test_a_sum_is_written_as_kubernetes_would(amounts, written):
    assert quantities.sum_quantities(amounts) == written


@given(TEXTS, st.integers(0, 1000))
def test_what_is_written_is_read_again(text, times):
    amount = quantities.parse_quantity(text)
    exact = amount * times
    found = quantities.parse_quantity(quantities.sum_quantities([(text, times)]))
    if abs(exact) <= quantities.MAX_AMOUNT:
        assert abs(found - exact) < quantities.SMALLEST_UNIT
    else:
        assert abs(found) == quantities.MAX_AMOUNT


@given(st.lists(st.tuples(TEXTS, st.integers(0, 9)), max_size=5))
def test_a_sum_of_anything_is_an_amount(amounts):
    assert quantities.parse_quantity(quantities.sum_quantities(amounts)) is not None

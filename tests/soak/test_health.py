"""The samples of the longest process are used, and growth is detected."""

from __future__ import annotations

import pytest

from support.process_usage import Sample

from .health import WARM, every, longest, slope


def test_the_longest_process_counts_once_it_is_warm():
    short = [Sample(at, 1, 50.0, 9) for at in (0.0, 10.0)]
    long = [Sample(at, 2, 60.0, 9) for at in (20.0, 21.0 + WARM, 22.0 + WARM)]
    assert longest([*short, *long]) == long[1:]
    assert longest(short) == short, "none of it was warm"


def test_the_slope_is_that_of_the_line_through_all_points():
    assert slope([(0, 5), (1, 7), (2, 9)]) == pytest.approx(2)
    assert slope([(0, 5), (1, 8), (2, 5)]) == pytest.approx(0)
    assert slope([(1, 5)]) == 0


def test_of_each_step_the_first_point_is_kept():
    assert every([(0.0, 1.04), (0.4, 2.0), (0.5, 3.0), (0.9, 4.0), (2.1, 5.0)], 0.5) == [1.0, 3.0, 5.0]

"""A run whose jobs are over waits for its last pods, but not without end."""

from __future__ import annotations

import pytest

from trainshed.local.last_pods import LastPods


@pytest.mark.parametrize(
    ("ending", "terminating", "over_at"),
    [({}, False, 7), ({}, True, 61), ({"a": 30.0}, False, 61), ({"a": 100.0, "b": 300.0}, True, 311)],
    ids=["nothing", "only a mark", "soon", "long grace periods"],
)
def test_pods_that_do_not_end_are_awaited_as_long_as_they_may_take(ending, terminating, over_at):
    last = LastPods(lambda _: None)
    seen = [now for now in range(400) if last.are_over(float(now), 0.0, ending, terminating=terminating)]
    assert seen[0] == over_at


def test_a_run_says_once_for_what_it_waits_and_how_long():
    said: list[str] = []
    last = LastPods(said.append)
    for now in range(20):
        assert not last.are_over(float(now), 0.0, dict.fromkeys("abcdefg", 40.0), terminating=False)
    assert said == ["waiting up to 33 s for what is ending: a, b, c, d, e and 2 more; Ctrl-C twice kills it"]
    last.start_again()
    assert not last.are_over(500.0, 0.0, {}, terminating=True), "a job was not over meanwhile"


def test_time_in_which_a_run_could_not_check_is_not_quiet():
    last = LastPods(lambda _: None)
    assert not last.are_over(0.0, 0.0, {}, terminating=False)
    assert not last.are_over(50.0, 0.0, {}, terminating=False)
    for now in range(6):
        assert not last.are_over(50.0 + now, 50.0, {}, terminating=False), "something has changed then"

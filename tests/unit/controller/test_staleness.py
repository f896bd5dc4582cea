"""A job is not reconciled with an older view of its pods than its status was computed from."""

from __future__ import annotations

import pytest

from trainshed.controller import staleness
from trainshed.controller.staleness import GonePods, Staleness


@pytest.mark.fault("C12")
def test_a_foreign_status_write_makes_the_cache_stale_until_the_watch_catches_up():
    horizon = Staleness()
    horizon.observed_write("a", "50")
    assert horizon.is_stale("a", "49")
    assert horizon.is_stale("a", "49"), "the check alone changes nothing"
    assert not horizon.is_stale("a", "50")
    assert not horizon.is_stale("a", "49"), "once caught up, always caught up"
    assert not horizon.is_stale("b", "1")


def test_an_own_status_write_does_not_count_even_if_its_event_comes_first():
    horizon = Staleness()
    horizon.observed_write("a", "50")
    horizon.own_write("a", "50")
    assert not horizon.is_stale("a", "1")


def test_a_foreign_write_before_an_own_one_still_counts():
    horizon = Staleness()
    horizon.observed_write("a", "50")
    horizon.observed_write("a", "60")
    horizon.own_write("a", "60")
    assert horizon.is_stale("a", "49")
    assert not horizon.is_stale("a", "50")


def test_a_foreign_write_after_an_own_one_counts_even_if_the_response_is_late():
    horizon = Staleness()
    horizon.observed_write("a", "50")
    horizon.observed_write("a", "60")
    horizon.own_write("a", "50")
    assert horizon.is_stale("a", "59")


def test_uncertain_pods_stay_uncertain_until_they_are_listed():
    horizon = Staleness()
    horizon.mark_uncertain("a")
    assert horizon.is_stale("a", "99")
    horizon.mark_certain("a")
    assert not horizon.is_stale("a", "99")


def test_a_deleted_job_leaves_no_entries():
    horizon = Staleness()
    horizon.observed_write("a", "50")
    horizon.mark_uncertain("a")
    horizon.forget("a")
    assert not horizon.is_stale("a", "1")


def test_of_jobs_that_lost_pods_long_ago_only_newer_ones_are_known_to_have_lost_none(monkeypatch):
    monkeypatch.setattr(staleness, "MOST_OWNERS", 2)
    lost = GonePods()
    for number in (1, 1, 2, 3):
        lost.add(("ml", f"job-{number}"), f"{number}0")
    assert [lost.has_none_of(("ml", f"job-{number}"), f"{number}5") for number in (1, 2, 3, 4)] == [
        True,
        False,
        False,
        True,
    ]
    assert not lost.has_none_of(("ml", "job-0"), "10"), "what it has lost is forgotten"
    assert lost.has_none_of(("other", "job-3"), "35")


def test_a_job_that_has_lost_a_pod_again_is_remembered_longer_than_one_that_has_not(monkeypatch):
    monkeypatch.setattr(staleness, "MOST_OWNERS", 2)
    lost = GonePods()
    for name, version in (("twice", "10"), ("once", "20"), ("twice", "40"), ("other", "50")):
        lost.add(("ml", name), version)
    assert not lost.has_none_of(("ml", "twice"), "15"), "it has lost one at 40"
    assert lost.has_none_of(("ml", "once"), "25")

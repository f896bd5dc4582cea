"""Nobody decides about a job who may have seen less of its pods than the writer of its status."""

from __future__ import annotations

from trainshed.loop.horizon import Horizon


def test_what_somebody_else_wrote_counts_until_we_were_told_as_much():
    horizon = Horizon()
    horizon.heard("a", "50")
    assert horizon.beyond("a", "49")
    assert horizon.beyond("a", "49"), "asking alone changes nothing"
    assert not horizon.beyond("a", "50")
    assert not horizon.beyond("a", "49"), "once told as much, always told as much"
    assert not horizon.beyond("b", "1")


def test_what_we_wrote_ourselves_does_not_count_though_the_watch_tells_of_it_first():
    horizon = Horizon()
    horizon.heard("a", "50")
    horizon.wrote("a", "50")
    assert not horizon.beyond("a", "1")


def test_what_somebody_wrote_before_us_still_counts():
    horizon = Horizon()
    horizon.heard("a", "50")
    horizon.heard("a", "60")
    horizon.wrote("a", "60")
    assert horizon.beyond("a", "49")
    assert not horizon.beyond("a", "50")


def test_what_somebody_wrote_after_us_counts_though_our_answer_comes_late():
    horizon = Horizon()
    horizon.heard("a", "50")
    horizon.heard("a", "60")
    horizon.wrote("a", "50")
    assert horizon.beyond("a", "59")


def test_who_is_in_doubt_stays_so_until_the_server_was_asked():
    horizon = Horizon()
    horizon.doubt("a")
    assert horizon.beyond("a", "99")
    horizon.cleared("a")
    assert not horizon.beyond("a", "99")


def test_a_job_that_is_gone_leaves_nothing():
    horizon = Horizon()
    horizon.heard("a", "50")
    horizon.doubt("a")
    horizon.forget("a")
    assert not horizon.beyond("a", "1")

"""Each rejection message about a status is reported once."""

from __future__ import annotations

from trainshed.loop.rejections import KNOWN, Rejections
from trainshed.loop.view import Key

KEY, OTHER = Key("ml", "TFJob", "a"), Key("ml", "TFJob", "b")


def test_a_message_is_reported_once():
    rejections = Rejections()
    assert [rejections.news(KEY, message) for message in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]


def test_each_job_has_its_own_messages():
    rejections = Rejections()
    assert rejections.news(KEY, "a")
    assert rejections.news(OTHER, "a")
    assert not rejections.news(KEY, "a")


def test_a_message_is_reported_again_after_a_stored_status():
    rejections = Rejections()
    rejections.news(KEY, "a")
    rejections.forget(KEY)
    rejections.forget(OTHER)
    assert rejections.news(KEY, "a")


def test_only_the_beginning_of_a_long_message_is_stored():
    rejections = Rejections()
    assert rejections.news(KEY, "x" * KNOWN + "a")
    assert not rejections.news(KEY, "x" * KNOWN + "b")

"""Each rejection message about a status is reported once."""

from __future__ import annotations

from trainshed.api.job import JobKey
from trainshed.controller.status_writes import MAX_COMPARED_LENGTH, StatusRejections

KEY, OTHER = JobKey("ml", "TFJob", "a"), JobKey("ml", "TFJob", "b")


def test_a_message_is_reported_once():
    rejections = StatusRejections()
    assert [rejections.news(KEY, message) for message in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]


def test_each_job_has_its_own_messages():
    rejections = StatusRejections()
    assert rejections.news(KEY, "a")
    assert rejections.news(OTHER, "a")
    assert not rejections.news(KEY, "a")


def test_a_message_is_reported_again_after_a_stored_status():
    rejections = StatusRejections()
    rejections.news(KEY, "a")
    rejections.forget(KEY)
    rejections.forget(OTHER)
    assert rejections.news(KEY, "a")


def test_only_the_beginning_of_a_long_message_is_stored():
    rejections = StatusRejections()
    assert rejections.news(KEY, "x" * MAX_COMPARED_LENGTH + "a")
    assert not rejections.news(KEY, "x" * MAX_COMPARED_LENGTH + "b")

"""Of a container that was killed, Events say whether a probe was the cause, or the end of its grace period."""

from __future__ import annotations

import pytest

from support.builders import at
from trainshed.api.status import Failure
from trainshed.views.attempts import failed_probe, unsaved

from .job_stories import a_training, story_after

FAILURE = Failure("mnist-worker-0", "Application", "Error", 137, "node-a", "", at(100), ran=60)
WHY = "Liveness probe failed: cat: /tmp/alive: No such file or directory"


def event(second: float, reason: str, message: str) -> dict:
    return {"lastTimestamp": at(second).isoformat(), "reason": reason, "message": message}


END = event(70, "Killing", "Stopping container pytorch")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([END, event(70, "Unhealthy", WHY)], WHY),
        ([event(71, "Unhealthy", "Startup probe errored: no"), END], "Startup probe errored: no"),
        ([event(70, "Unhealthy", "Liveness probe failed: "), END], "Liveness probe failed"),
        ([event(70, "Unhealthy", WHY)], ""),  # it has failed less often than its threshold
        ([event(50, "Unhealthy", WHY), END], ""),  # the end has another cause
        ([event(70, "Unhealthy", "Readiness probe failed: no"), END], ""),
        ([event(30, "Unhealthy", WHY), event(30, "Killing", "Stopping container pytorch")], ""),  # an earlier run
        ([{"lastTimestamp": 7, "message": {}, "reason": "Unhealthy"}, END], ""),
    ],
)
def test_the_probe_is_named_that_killed_the_container(events: list[dict], expected: str):
    assert failed_probe(FAILURE, events) == expected


LATE = event(60, "GracePeriodExceeded", "master-0 was killed 5 s after SIGTERM, as the 5 s of X were over")


@pytest.mark.parametrize(
    ("events", "is_said"),
    [
        ([LATE], True),
        ([event(50, "GracePeriodUsed", "master-0 ended with code 0"), LATE], True),
        ([LATE, event(70, "GracePeriodUsed", "master-0 ended with code 0"), END], False),
        ([{**LATE, "lastTimestamp": 7}], False),
        ([END], False),
        ([], False),
    ],
)
def test_it_is_said_that_the_last_checkpoint_was_not_saved_in_the_grace_period(events: list[dict], is_said: bool):
    said = "40s ago: master-0 was killed 5 s after SIGTERM, as the 5 s of X were over: the checkpoint was not saved"
    assert unsaved(events, at(100)).startswith(said) if is_said else unsaved(events, at(100)) == ""
    lines = [
        line
        for chapter in story_after(a_training(), unsaved=unsaved(events, at(100))).chapters
        for line in chapter.lines
    ]
    assert any("was not saved in time" in line for line in lines) is is_said

"""Of a container that was killed, the kubelet's Events say whether a probe was the cause."""

from __future__ import annotations

import pytest

from support.builders import at
from trainshed.api.status import Failure
from trainshed.views.attempts import failed_probe

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

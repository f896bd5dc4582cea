"""The status as we stored it, read back; tests/api/test_write.py reads back what was written."""

from __future__ import annotations

import pytest

from make import at
from trainshed.api.recall import status
from trainshed.api.status import Status


def test_a_forged_status_is_passed_over():
    forged = {"conditions": [5, {"type": "Nonsense"}], "startTime": "yesterday", "restarts": "many", "replacing": 3}
    assert status({"status": forged}) == Status()
    times = {"conditions": [{"type": "Created", "status": "True"}], "startTime": "2026-01-01T12:00:00"}
    found = status({"status": times})
    assert found.start == at(0)
    assert found.conditions[0].true
    assert status({"status": {"failure": {"pod": "x"}, "recentRestarts": [{"member": "x"}, 7]}}) == Status()


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-13-01T00:00:00Z", ""])
def test_a_time_that_is_none_is_passed_over(time):
    assert status({"status": {"startTime": time}}).start is None

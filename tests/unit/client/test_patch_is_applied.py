"""Merge patches whose responses were lost."""

from __future__ import annotations

import pytest

from trainshed.client.client import patch_is_applied

PATCH = {
    "metadata": {"uid": "u", "resourceVersion": "7"},
    "status": {"ready": "1/1", "retry": {"consecutiveFailures": 2}, "old": None},
}
DONE = {"ready": "1/1", "retry": {"consecutiveFailures": 2, "containerRestarts": 1}, "restarts": 3}


@pytest.mark.parametrize(
    ("metadata", "status", "done"),
    [
        ({"uid": "u", "resourceVersion": "8"}, DONE, True),
        ({"uid": "u", "resourceVersion": "7"}, DONE, False),
        ({"uid": "v", "resourceVersion": "8"}, DONE, False),
        ({"uid": "u", "resourceVersion": "8"}, DONE | {"ready": "0/1"}, False),
        ({"uid": "u", "resourceVersion": "8"}, DONE | {"retry": {"consecutiveFailures": 1}}, False),
        ({"uid": "u", "resourceVersion": "8"}, DONE | {"old": "there"}, False),
        ({"uid": "u", "resourceVersion": "8"}, None, False),
    ],
)
def test_a_patch_was_applied_if_the_object_changed_and_has_its_values(metadata, status, done):
    assert patch_is_applied(PATCH, {"metadata": metadata, "status": status}) is done

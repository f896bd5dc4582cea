"""A condition of a pod counts only while its status is True, PodScheduled while it is False."""

from __future__ import annotations

import json

import msgspec
import pytest

from trainshed.client import decode


def pod(**conditions: str):
    """Return a pod with conditions of these statuses, all with the same reason."""
    items = [{"type": kind, "status": status, "reason": "Why", "message": "m"} for kind, status in conditions.items()]
    document = {"metadata": {"name": "x"}, "status": {"conditions": items}}
    return decode.pod(msgspec.json.Decoder(decode.PodObject).decode(json.dumps(document).encode()))


@pytest.mark.parametrize(("status", "reason"), [("True", "Why"), ("False", ""), ("Unknown", "")])
def test_a_pod_is_disrupted_only_while_that_is_true(status, reason):
    assert pod(DisruptionTarget=status).disruption == reason


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_pod_is_ready_only_while_that_is_true(status, ready):
    assert pod(Ready=status).ready is ready


@pytest.mark.parametrize(("status", "expected"), [("True", ("", "")), ("False", ("Why", "m")), ("Unknown", ("", ""))])
def test_a_pod_is_unschedulable_only_while_that_is_false(status, expected):
    found = pod(PodScheduled=status)
    assert (found.unplaced, found.unschedulable) == expected

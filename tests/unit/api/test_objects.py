"""The facts about a pod."""

from __future__ import annotations

import pytest

from support.builders import a_pod, at
from support.replace import replace
from trainshed.api.objects import Phase


@pytest.mark.parametrize(
    ("phase", "over"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_is_over_when_its_containers_have_ended_for_good(phase, over):
    assert a_pod("worker-0", phase).over is over


def test_when_a_pod_was_dismissed_is_known_if_its_deletion_is():
    assert a_pod("worker-0", deletion_timestamp=at(40), grace=30).deletion_requested == at(10)
    assert a_pod("worker-0").deletion_requested is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"version": "2", "attempt": 7}, True),
        ({"phase": Phase.FAILED}, False),
        ({"deleting": True}, False),
        ({"containers": ()}, False),
    ],
)
def test_the_state_of_a_pod_is_what_no_user_can_patch(change, same):
    pod = a_pod("worker-0")
    assert pod.is_in_state_of(replace(pod, **change)) is same

"""Each action has v1's Events, for success and for failure."""

from __future__ import annotations

import pytest

from support.builders import a_job, seen
from trainshed.api.actions import (
    CreateDependent,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Event,
    EventType,
    UpdateDependent,
)
from trainshed.api.objects import CONFIG_MAPS, VOLCANO_GROUPS
from trainshed.plan.messages.writes import action_events, success_events, waiting_for_previous_job

ERROR = ValueError("no room")
EVENTS = [
    (CreatePod("x", "u", dict), "CreatePod", "Created pod", "Error creating: no room"),
    (CreateService("x", {}), "CreateService", "Created service", "Error creating: no room"),
    (DeletePod("x", "u"), "DeletePod", "Deleted pod", "Error deleting: no room"),
    (DeleteService("x", "u"), "DeleteService", "Deleted service", "Error deleting: no room"),
    (DeleteDependent(VOLCANO_GROUPS, "x", "u"), "DeletePodGroup", "Deleted PodGroup", "Error deleting: no room"),
    (DeleteJob("u", "1"), "DeleteJob", "Deleted job", "Error deleting: no room"),
]


@pytest.mark.parametrize(("action", "what", "done", "error"), EVENTS)
def test_actions_have_v1s_events(action, what, done, error):
    found = action_events(seen(a_job(worker=1)), action)
    assert found.success == Event(EventType.NORMAL, f"Successful{what}", done)
    assert found.failure(ERROR) == Event(EventType.WARNING, f"Failed{what}", error)


def test_the_end_of_a_pytorchjob_has_v1s_reason():
    found = action_events(seen(a_job("PyTorchJob", master=1)), DeleteJob("u", "1"))
    assert found.success == Event(EventType.NORMAL, "SuccessfulDeletePod", "Deleted job")
    assert found.failure(ERROR).reason == "FailedDeletePod"


@pytest.mark.parametrize(
    "action",
    [
        CreateDependent(CONFIG_MAPS, "x", {}),
        DeleteDependent(CONFIG_MAPS, "x", "u"),
        CreateDependent(VOLCANO_GROUPS, "x", {}),
        UpdateDependent(VOLCANO_GROUPS, "x", {}),
    ],
)
def test_actions_without_an_event_in_v1_have_none(action):
    assert action_events(seen(a_job(worker=1)), action) is None


def test_actions_of_one_type_have_one_event_with_all_names():
    done = [
        CreateService("a", {}),
        CreatePod("a", "u", dict),
        CreateDependent(CONFIG_MAPS, "c", {}),
        CreatePod("b", "u", dict),
    ]
    assert success_events(seen(a_job(worker=1)), [*done, DeleteJob("u", "1")]) == {
        Event(EventType.NORMAL, "SuccessfulCreateService", "Created service"): ["a"],
        Event(EventType.NORMAL, "SuccessfulCreatePod", "Created pod"): ["a", "b"],
        Event(EventType.NORMAL, "SuccessfulDeleteJob", "Deleted job"): ["mnist"],
    }


def test_that_the_pods_of_the_job_before_are_waited_for_is_normal_and_said_once():
    event = waiting_for_previous_job("PreviousJobTerminating", ValueError("waiting for pod a of the previous job"))
    expected = ("Normal", "PreviousJobTerminating", "waiting for pod a of the previous job", "PreviousJobTerminating")
    assert (event.type, event.reason, event.message, event.key) == expected

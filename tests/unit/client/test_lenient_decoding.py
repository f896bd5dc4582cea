"""An object with values of wrong types or invalid times is decoded without these values."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.client.decode import PodObject
from trainshed.client.lists import PODS, SERVICES, decode_leniently

META = {"name": "a", "uid": "u"}


def pod(**status: Any) -> bytes:
    return json.dumps({"metadata": META, "status": status}).encode()


def container(**fields: Any) -> bytes:
    return pod(phase="Failed", containerStatuses=[{"name": "own", **fields}])


@pytest.mark.parametrize(
    "content",
    [
        container(restartCount=None),
        container(restartCount="many"),
        container(restartCount=1.5),
        container(state={"terminated": {"finishedAt": "0000-01-01T00:00:00Z"}}),
        container(state={"terminated": {"finishedAt": "10000-01-01T00:00:00Z"}}),
        container(state={"terminated": {"finishedAt": 7, "exitCode": [1]}}),
        container(state="fine", lastState=[]),
        pod(phase="Failed", containerStatuses=[None, 7, {"name": "own"}], conditions=[None, {"type": 7}], reason=7),
        pod(phase="Failed", containerStatuses=[{"name": "own"}], initContainerStatuses={"name": "x"}),
    ],
)
def test_one_wrong_value_does_not_hide_a_pod(content: bytes):
    found = PODS.item(content)
    assert (found.name, found.phase, [one.name for one in found.containers]) == ("a", "Failed", ["own"])


def test_valid_values_beside_an_invalid_one_are_kept():
    end = {"exitCode": 137, "reason": "Error", "message": "bye\ud800", "finishedAt": "0000-01-01T00:00:00Z"}
    meta = META | {
        "labels": {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": 7},
        "deletionGracePeriodSeconds": 5,
    }
    content = json.dumps({"metadata": meta, "status": {"containerStatuses": [{"state": {"terminated": end}}]}})
    found = PODS.item(content.encode())
    (own,) = found.containers
    assert (found.job, found.grace) == ("j", 5)
    assert (own.exit_code, own.reason, own.message, own.finished) == (137, "Error", "bye?", None)


def test_a_very_long_number_is_left_out():
    content = b'{"metadata": {"name": "a"}, "status": {"containerStatuses": [{"restartCount": ' + b"9" * 9999 + b"}]}}"
    assert [one.restarts for one in PODS.item(content).containers] == [0]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"{}", b'{"metadata": 7}', b'{"metadata": {"name": 7}}', b'{"metadata": {"uid": null}}'],
)
def test_a_document_that_identifies_no_object_is_an_error(content: bytes):
    with pytest.raises(msgspec.DecodeError):
        decode_leniently(content, PodObject)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        name: st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("exitCode", "reason", "startedAt", "finishedAt"), ANYTHING)
        )
        | ANYTHING
        for name in ("running", "waiting", "terminated")
    },
)
CONTAINERS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("name", "image", "restartCount"), ANYTHING),
        **dict.fromkeys(("state", "lastState"), STATES | ANYTHING),
    },
)
CONDITIONS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), ANYTHING)
)
PARTS = {
    "metadata": st.fixed_dictionaries(
        {"name": st.just("a"), "uid": st.just("u")},
        optional=dict.fromkeys(
            (
                "labels",
                "annotations",
                "finalizers",
                "ownerReferences",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ),
            ANYTHING,
        ),
    ),
    "spec": st.fixed_dictionaries({}, optional=dict.fromkeys(("nodeName", "containers", "initContainers"), ANYTHING))
    | ANYTHING,
    "status": st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("phase", "reason", "message"), ANYTHING),
            "conditions": st.lists(CONDITIONS | ANYTHING, max_size=3) | ANYTHING,
            "containerStatuses": st.lists(CONTAINERS | ANYTHING, max_size=3) | ANYTHING,
        },
    )
    | ANYTHING,
}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(PARTS))
def test_any_pod_or_service_with_a_name_is_decoded(document):
    content = json.dumps(document).encode()
    assert (PODS.item(content).name, PODS.item(content).uid) == ("a", "u")
    assert SERVICES.item(content).name == "a"

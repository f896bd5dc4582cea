"""What an admission webhook has made of a pod is refused if it is no longer the pod that the job needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.builders import creation_of
from trainshed.client import Altered, Conflict, LabelRemoved, NotFound
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.transport import AlreadyExists

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "job-uid", "controller": True}
LABELS = {"training.kubeflow.org/job-name": "mnist"}
ATTEMPT = "trainshed.dev/restart-attempt"
SENT = {
    "kind": "Pod",
    "metadata": {
        "name": "mnist-worker-0",
        "ownerReferences": [OWNER],
        "labels": LABELS,
        "annotations": {ATTEMPT: "0"},
    },
}


class Mutating:
    """A connection to a server that creates objects with these metadata."""

    def __init__(self, **metadata: Any) -> None:
        self._metadata = {"uid": "it", "resourceVersion": "1", **metadata}

    async def write(self, _verb: str, _path: object, body: dict[str, Any], _permit: object) -> bytes:
        return json.dumps({**body, "metadata": {**body["metadata"], **self._metadata}}).encode()


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"name": "mnist-worker-0-x7"}, "name"),
        ({"ownerReferences": []}, "controller"),
        ({"ownerReferences": [{**OWNER, "controller": False}]}, "controller"),
        ({"ownerReferences": [{**OWNER, "uid": "another"}]}, "controller"),
    ],
)
async def test_a_pod_with_another_name_or_controller_is_refused(changed, what):
    for create, wanted in (("create_pod", creation_of(SENT)), ("create_service", SENT)):
        with pytest.raises(Altered, match=rf"Pod mnist-worker-0 was created, but .* changed its {what}"):
            await getattr(ApiClient(Mutating(**changed), TokenBucket()), create)("ml", wanted)


@pytest.mark.parametrize("annotations", [None, {ATTEMPT: "0"}, {ATTEMPT: "many"}])
async def test_a_pod_that_is_created_with_an_earlier_attempt_is_refused(annotations):
    """It would be deleted as an old one at once, and so would the next."""
    again = {**SENT, "metadata": SENT["metadata"] | {"annotations": {ATTEMPT: "3"}}}
    with pytest.raises(Altered, match=r"Pod mnist-worker-0 was created, but .* changed its annotation"):
        await ApiClient(Mutating(annotations=annotations), TokenBucket()).create_pod("ml", creation_of(again))
    assert (await ApiClient(Mutating(), TokenBucket()).create_pod("ml", creation_of(again))).attempt == 3


async def test_a_pod_that_is_created_without_its_label_is_reported():
    """No watch selects it: the job would wait for it without a word."""
    with pytest.raises(LabelRemoved, match=r"its label .* was removed") as error:
        await ApiClient(Mutating(labels={"a": "b"}), TokenBucket()).create_pod("ml", creation_of(SENT))
    assert error.value.pod.name == "mnist-worker-0"


async def test_a_pod_with_more_labels_and_finalizers_is_accepted():
    changed = {"labels": LABELS | {"a": "b"}, "finalizers": ["a.b/c"], "annotations": None}
    assert (await ApiClient(Mutating(**changed), TokenBucket()).create_pod("ml", creation_of(SENT))).uid == "it"


@pytest.mark.parametrize(
    ("taken", "error", "words"),
    [
        ("mnist-worker-0", Conflict, "Pod mnist-worker-0 existed, and is gone; it can be created now"),
        ("elsewhere", Altered, "was not created: an admission webhook has changed its name to that of another"),
    ],
)
async def test_a_name_that_is_taken_and_then_free_can_be_used_unless_a_webhook_gives_pods_another(taken, error, words):
    class Server:
        async def write(self, *_request: object) -> bytes:
            raise AlreadyExists(f'pods "{taken}" already exists')

        async def call(self, *_request: object) -> bytes:
            raise NotFound("no such pod")

    with pytest.raises(error, match=words):
        await ApiClient(Server(), TokenBucket()).create_pod("ml", creation_of(SENT))

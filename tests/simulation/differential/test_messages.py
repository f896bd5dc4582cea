"""Cases that no random sequence covers: quotas, deletion of namespaces, evictions, and messages of errors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation.custom_resources import whole_server
from support.user_client import Refused, UserClient, eventually
from trainshed.memory.errors import StatusError
from trainshed.memory.garbage_collector import GarbageCollector

pytestmark = pytest.mark.apiserver
#: A status, and the message of an error.
Response = tuple[int, str]


class Simulated:
    """The simulated server with an immediate garbage collector."""

    def __init__(self, namespace: str) -> None:
        self._server = whole_server(lambda: 1.8e9)
        self._server.make_namespace(namespace)
        self._garbage_collector = GarbageCollector(self._server)

    def ask(self, verb: str, path: str, body: dict | None = None) -> Response:
        self._garbage_collector.run()
        try:
            self._server.request("user", verb, path, body=body)
        except StatusError as error:
            return error.code, error.message
        finally:
            self._garbage_collector.run()
        return 200, ""


class Real:
    """The real server."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._hand = UserClient(kubeconfig, namespace)
        self._hand.make_namespace()

    def ask(self, verb: str, path: str, body: dict | None = None) -> Response:
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        try:
            self._hand.call(verb, path, body, kind)
        except Refused as refused:
            return refused.code, str(refused).partition(": ")[2]
        return 200, ""


def pod(name: str, **metadata) -> dict:
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def quota(ask: Callable[..., Response], here: str) -> list[Response]:
    """A namespace may have one pod; when it has finished, another may be created."""
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    responses = [ask("POST", f"{here}/resourcequotas", limit)]

    def counted() -> bool:
        """The quota controller has counted: before, it may admit one pod more."""
        for _ in range(10):
            if "exceeded quota" not in ask("POST", f"{here}/pods", pod("a"))[1]:
                return False
            time.sleep(0.1)
        return True

    eventually(counted, 30)
    responses += [ask("POST", f"{here}/pods", pod(name)) for name in ("a", "b")]
    responses += [ask("POST", f"{here}/configmaps", {"metadata": {"name": "x"}})]
    responses += [ask("PATCH", f"{here}/pods/a/status", {"status": {"phase": "Succeeded"}})]
    eventually(lambda: ask("POST", f"{here}/pods", pod("b"))[0] in (200, 409), 30)
    return [*responses, ask("POST", f"{here}/pods", pod("c"))]


def namespace_deletion(ask: Callable[..., Response], here: str) -> list[Response]:
    """A namespace is gone after the last finalizer in it is removed."""
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    responses = [ask("POST", f"{here}/configmaps", held), ask("POST", f"{here}/pods", pod("a"))]
    responses += [ask("DELETE", here)]
    eventually(lambda: ask("GET", f"{here}/pods/a")[0] == 404, 30)
    responses += [ask("POST", f"{here}/pods", pod("b")), ask("GET", here)]
    responses += [ask("PATCH", f"{here}/configmaps/held", {"metadata": {"finalizers": None}})]
    eventually(lambda: ask("GET", here)[0] == 404, 60)
    return [*responses, ask("GET", here), ask("POST", f"{here}/pods", pod("b")), ask("GET", f"{here}/pods/b")]


def refusals(ask: Callable[..., Response], here: str) -> list[Response]:
    """The errors that the operator meets."""
    jobs = here.replace("/api/v1", "/apis/kubeflow.org/v1") + "/tfjobs"
    unknown = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}
    responses = [ask("GET", f"{here}/pods/a"), ask("DELETE", f"{here}/pods/a"), ask("GET", f"{jobs}/a")]
    responses += [ask("POST", f"{here}/pods", pod("a")), ask("POST", f"{here}/pods", pod("a"))]
    responses += [ask("PATCH", f"{here}/pods/a", {"metadata": {"resourceVersion": "1"}})]
    responses += [(ask("DELETE", f"{here}/pods/a", unknown)[0], "")]
    responses += [ask("GET", f"{here.replace('/api/v1', '/apis/nothing.example.com/v1')}/things")]
    return responses


def eviction(ask: Callable[..., Response], here: str) -> list[Response]:
    """A pod is evicted."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    responses = [ask("POST", f"{here}/pods", pod("a"))]
    responses += [
        ask("POST", f"{here}/pods/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})
    ]
    responses += [ask("POST", f"{here}/pods/a/eviction", body), ask("GET", f"{here}/pods/a")]
    return responses


def events(ask: Callable[..., Response], here: str) -> list[Response]:
    """Events are created, created again and changed."""
    about = {"kind": "Pod", "namespace": here.rpartition("/")[2], "name": "a"}
    event = {"metadata": {"name": "a.1"}, "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
    responses = [ask("POST", f"{here}/events", event), ask("POST", f"{here}/events", event)]
    responses += [ask("PATCH", f"{here}/events/a.1", {"count": 3}), ask("PATCH", f"{here}/events/a.2", {"count": 3})]
    return responses


@pytest.mark.parametrize(
    "scenario", [quota, namespace_deletion, refusals, eviction, events], ids=lambda scenario: scenario.__name__
)
def test_both_servers_respond_with_the_same_messages(plane, scenario):
    namespace = f"messages-{uuid.uuid4().hex[:8]}"
    here = f"/api/v1/namespaces/{namespace}"
    real, simulated = (scenario(side.ask, here) for side in (Real(plane.kubeconfig, namespace), Simulated(namespace)))
    assert simulated == real

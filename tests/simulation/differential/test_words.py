"""What no random sequence meets: quotas, namespaces that go, evictions; and the server's own words, which are read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation.answers import Refusal
from simulation.collector import Collector
from simulation.server import Server
from support.user_client import Refused, UserClient, eventually

pytestmark = pytest.mark.apiserver
#: A code, and the server's words.
Said = tuple[int, str]


class Simulated:
    """The simulated server, its controllers never late."""

    def __init__(self, namespace: str) -> None:
        self._server = Server(lambda: 1.8e9)
        self._server.make_namespace(namespace)
        self._collector = Collector(self._server)

    def ask(self, verb: str, path: str, body: dict | None = None) -> Said:
        self._collector.sweep_all()
        try:
            self._server.request("user", verb, path, body=body)
        except Refusal as refusal:
            return refusal.code, refusal.message
        finally:
            self._collector.sweep_all()
        return 200, ""


class Real:
    """The real server."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._hand = UserClient(kubeconfig, namespace)
        self._hand.make_namespace()

    def ask(self, verb: str, path: str, body: dict | None = None) -> Said:
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        try:
            self._hand.call(verb, path, body, kind)
        except Refused as refused:
            return refused.code, str(refused).partition(": ")[2]
        return 200, ""


def pod(name: str, **metadata) -> dict:
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def quota(ask: Callable[..., Said], here: str) -> list[Said]:
    """A namespace that may have one pod; then the pod is over, and another has room."""
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    said = [ask("POST", f"{here}/resourcequotas", limit)]

    def counted() -> bool:
        """The quota's controller has seen the pod: before, it may count none, and let one more in."""
        for _ in range(10):
            if "exceeded quota" not in ask("POST", f"{here}/pods", pod("a"))[1]:
                return False
            time.sleep(0.1)
        return True

    eventually(counted, 30)
    said += [ask("POST", f"{here}/pods", pod(name)) for name in ("a", "b")]
    said += [ask("POST", f"{here}/configmaps", {"metadata": {"name": "x"}})]
    said += [ask("PATCH", f"{here}/pods/a/status", {"status": {"phase": "Succeeded"}})]
    eventually(lambda: ask("POST", f"{here}/pods", pod("b"))[0] in (200, 409), 30)
    return [*said, ask("POST", f"{here}/pods", pod("c"))]


def departure(ask: Callable[..., Said], here: str) -> list[Said]:
    """A namespace that goes, as soon as the last that holds it is let go."""
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    said = [ask("POST", f"{here}/configmaps", held), ask("POST", f"{here}/pods", pod("a"))]
    said += [ask("DELETE", here)]
    eventually(lambda: ask("GET", f"{here}/pods/a")[0] == 404, 30)
    said += [ask("POST", f"{here}/pods", pod("b")), ask("GET", here)]
    said += [ask("PATCH", f"{here}/configmaps/held", {"metadata": {"finalizers": None}})]
    eventually(lambda: ask("GET", here)[0] == 404, 60)
    return [*said, ask("GET", here), ask("POST", f"{here}/pods", pod("b")), ask("GET", f"{here}/pods/b")]


def refusals(ask: Callable[..., Said], here: str) -> list[Said]:
    """The refusals that the operator meets, in the server's words."""
    jobs = here.replace("/api/v1", "/apis/kubeflow.org/v1") + "/tfjobs"
    nobody = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}
    said = [ask("GET", f"{here}/pods/a"), ask("DELETE", f"{here}/pods/a"), ask("GET", f"{jobs}/a")]
    said += [ask("POST", f"{here}/pods", pod("a")), ask("POST", f"{here}/pods", pod("a"))]
    said += [ask("PATCH", f"{here}/pods/a", {"metadata": {"resourceVersion": "1"}})]
    said += [(ask("DELETE", f"{here}/pods/a", nobody)[0], "")]
    said += [ask("GET", f"{here.replace('/api/v1', '/apis/nothing.example.com/v1')}/things")]
    return said


def eviction(ask: Callable[..., Said], here: str) -> list[Said]:
    """A pod is asked to go."""
    told = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    said = [ask("POST", f"{here}/pods", pod("a"))]
    said += [
        ask("POST", f"{here}/pods/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})
    ]
    said += [ask("POST", f"{here}/pods/a/eviction", told), ask("GET", f"{here}/pods/a")]
    return said


def events(ask: Callable[..., Said], here: str) -> list[Said]:
    """Events are made, made again and changed."""
    about = {"kind": "Pod", "namespace": here.rpartition("/")[2], "name": "a"}
    event = {"metadata": {"name": "a.1"}, "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
    said = [ask("POST", f"{here}/events", event), ask("POST", f"{here}/events", event)]
    said += [ask("PATCH", f"{here}/events/a.1", {"count": 3}), ask("PATCH", f"{here}/events/a.2", {"count": 3})]
    return said


@pytest.mark.parametrize("story", [quota, departure, refusals, eviction, events], ids=lambda story: story.__name__)
def test_both_servers_say_the_same_in_the_same_words(plane, story):
    namespace = f"words-{uuid.uuid4().hex[:8]}"
    here = f"/api/v1/namespaces/{namespace}"
    real, simulated = (story(side.ask, here) for side in (Real(plane.kubeconfig, namespace), Simulated(namespace)))
    assert simulated == real

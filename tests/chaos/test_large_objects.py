"""The largest and the oddest objects that an API server accepts neither stop the jobs of others nor fill the memory."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support import FakeKubelet, Operator, Operators, UserClient
from support.jobs import pod_spec, tfjob
from support.user_client import MERGE, eventually
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.apiserver]

LABELS = {"training.kubeflow.org/job-name": "fat"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: Characters that take six bytes in the API server's JSON, and one in what it stores.
SIX = "<"
#: Bytes of memory that an operator may use with all of these objects; with none it uses about 80 MiB.
MEMORY = 400 * 1024 * 1024


def meta(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": LABELS, **fields}}


def a_pod(name: str, **container: Any) -> dict[str, Any]:
    return meta(name) | {"spec": {"containers": [{"name": "c", "image": "x", **container}]}}


def variable(value: str) -> list[dict[str, str]]:
    return [{"name": "A", "value": value}]


#: By what is large: the path below the namespace, and the object.
OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a variable": ("/api/v1/pods", a_pod("variable", env=variable(SIX * 1_560_000))),
    "control characters": ("/api/v1/pods", a_pod("control", env=variable("\x01\x1b\x7f" * 150_000))),
    "separators": ("/api/v1/pods", a_pod("separators", env=variable("\u2028\u202e\U0001f600" * 150_000))),
    "arguments": ("/api/v1/pods", a_pod("arguments", args=[SIX * 100] * 15_000)),
    "variables": ("/api/v1/pods", a_pod("variables", env=[{"name": f"V{number}"} for number in range(20_000)])),
    "ports": ("/api/v1/pods", a_pod("ports", ports=[{"containerPort": 1 + number} for number in range(20_000)])),
    "annotations of a pod": (
        "/api/v1/pods",
        meta("noted", annotations={f"n{number}": SIX * 1000 for number in range(250)})
        | {"spec": {"containers": [{"name": "c", "image": "x"}]}},
    ),
    "a ConfigMap": ("/api/v1/configmaps", meta("fat") | {"data": {"a": SIX * 1_040_000}}),
    "keys of a ConfigMap": ("/api/v1/configmaps", meta("keys") | {"data": {f"k{n}": "" for n in range(100_000)}}),
    "bytes": ("/api/v1/configmaps", meta("bytes") | {"binaryData": {"a": "AAAA" * 340_000}}),
    "a Service": (
        "/api/v1/services",
        meta("fat", annotations={"a": SIX * 250_000}) | {"spec": {"clusterIP": "None", "selector": {"a": "b"}}},
    ),
    "an account": ("/api/v1/serviceaccounts", meta("fat") | {"secrets": [{"name": SIX * 100}] * 13_000}),
    "a Role": (
        f"{RBAC}/roles",
        meta("fat") | {"rules": [{"apiGroups": [SIX], "resources": ["x"], "verbs": ["get"]}] * 50_000},
    ),
    "a RoleBinding": (
        f"{RBAC}/rolebindings",
        meta("fat")
        | {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": SIX * 100}] * 10_000,
        },
    ),
}
#: Statuses that a kubelet, or who may write as one, can give a pod.
STATUSES: dict[str, dict[str, Any]] = {
    "conditions": {"conditions": [{"type": f"T{number}", "status": "True"} for number in range(20_000)]},
    "a message": {"phase": "Failed", "reason": "Evicted", "message": "\x01" * 240_000},
    "containers": {
        "containerStatuses": [
            {"name": f"c{n}", "image": "", "imageID": "", "ready": False, "restartCount": 2**31 - 1}
            for n in range(10_000)
        ]
    },
    "addresses": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "nominatedNodeName": SIX * 100_000},
}


def jobs() -> Iterator[dict[str, Any]]:
    """Yield the largest and the oddest jobs."""
    for number, value in enumerate((SIX * 120_000, "\x01" * 100_000, "\u2028" * 100_000)):
        job = tfjob(f"fat-{number}", policy={"suspend": True}, Worker=1)
        pod_spec(job, "Worker")["containers"][0]["env"] = variable(value)
        yield job
    job = tfjob("odd", policy={"suspend": True}, Worker=1)
    nested: Any = 1e300
    for _ in range(200):
        nested = {"a": nested}
    pod_spec(job, "Worker").update({"x": nested, "y": [None] * 100_000, "z": 2**62, "\u202e<": -0.0})
    yield job


def make(user: UserClient) -> dict[str, str]:
    """Create all objects; return why the server refuses some of them."""
    refused = {}
    for what, (path, body) in OBJECTS.items():
        prefix, _, plural = path.rpartition("/")
        content = json.dumps(body, ensure_ascii=False)  # where the escapes of JSON would be too long for a request
        answer = user.send("POST", f"{prefix}/namespaces/{user.namespace}/{plural}", content)
        if answer.status >= 300:
            refused[what] = answer.data.decode()[:300]
    for number, (what, status) in enumerate(STATUSES.items()):
        user.make("pods", a_pod(f"status-{number}"))
        path = f"/api/v1/namespaces/{user.namespace}/pods/status-{number}/status"
        answer = user.send("PATCH", path, json.dumps({"status": status}), MERGE)
        if answer.status >= 300:
            refused[what] = answer.data.decode()[:300]
    for job in jobs():
        answer = user.send("POST", user.path("TFJob", ""), json.dumps(job))
        if answer.status >= 300:
            refused[job["metadata"]["name"]] = answer.data.decode()[:300]
    return refused


@contextmanager
def touched(server: ControlPlane, user: UserClient, *names: str) -> Iterator[None]:
    """Change these pods all the time during the block."""
    over, other = threading.Event(), UserClient(server.kubeconfig, user.namespace)

    def touch() -> None:
        for number in itertools.count():
            for name in names:
                body = {"metadata": {"annotations": {"touched": str(number)}}}
                other.call("PATCH", f"/api/v1/namespaces/{user.namespace}/pods/{name}", body, MERGE)
            if over.wait(0.5):
                return

    thread = threading.Thread(target=touch)
    thread.start()
    yield
    over.set()
    thread.join()


def memory(operator: Operator) -> float:
    """Return the resident memory of an operator, in bytes."""
    found = re.search(r"^process_resident_memory_bytes (\S+)", operator.served(), re.MULTILINE)
    assert found
    return float(found[1])


@pytest.mark.fault("J19")
def test_the_largest_objects_of_a_tenant_do_not_stop_the_jobs_of_others(
    server: ControlPlane, user: UserClient, operators: Operators
):
    others = UserClient(server.kubeconfig, f"{user.namespace}-others")
    others.make_namespace()
    operator = operators.begin(server.kubeconfig, "--no-leader-elect", "--log-format=text")
    assert make(user).keys() <= {"addresses"}, "the server accepts the others"
    with FakeKubelet(others) as kubelet, touched(server, user, "variable", "control"):
        for name in ("first", "second"):
            others.create(tfjob(name, Worker=2))
            eventually(lambda name=name: others.state("TFJob", name) == "Running", 30)
            kubelet.end(f"{name}-worker-0", 0)
            eventually(lambda name=name: others.state("TFJob", name) == "Succeeded", 20)
            if name == "first":
                used = memory(operator)
                operator.stop()
                operator = operators.begin(server.kubeconfig, "--no-leader-elect", "--log-format=text")
    print(f"\n{used / 2**20:.0f} MiB, after a restart {memory(operator) / 2**20:.0f} MiB")
    assert max(used, memory(operator)) < MEMORY
    assert operator.complaints() == []
    for line in operator.log.read_text().splitlines():
        assert line.isprintable()

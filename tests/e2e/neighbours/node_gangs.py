"""Gangs on the nodes of the kind cluster, with real containers.

What limits them is a resource that the nodes advertise, as they do GPUs: each worker node has two, each pod needs one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from support.gang_cluster import PRIORITIES, GangCluster
from support.kubectl import PATIENCE, Kubectl
from support.user_client import eventually
from testbed import kind
from testbed.images import PYTHON

RESOURCE = "example.com/accelerator"
OF_A_NODE = "2"
#: Ends with 0 at SIGTERM, and as if it was killed at SIGUSR1.
COMMAND = ["sh", "-c", "trap 'exit 0' TERM; trap 'exit 137' USR1; sleep 3600 & wait"]
SIGNALS = {0: "TERM", 137: "USR1"}


class NodeGangCluster(GangCluster):
    """A user's jobs on the nodes; at the end its namespace is deleted."""

    resources: ClassVar[dict[str, dict[str, str]]] = {"requests": {"cpu": "10m"}, "limits": {RESOURCE: "1"}}

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.user.call("DELETE", f"/api/v1/namespaces/{self.user.namespace}")

    def end(self, pod: str, code: int) -> None:
        """Send the container a signal that it ends at. The pod may have gone meanwhile, as when its job is over."""
        kubectl = Kubectl(str(kind.kubeconfig()), self.user.namespace)
        later = (
            f"(sleep 0.2; kill -{SIGNALS[code]} 1) >/dev/null 2>&1 &"  # the end of a container kills what runs in it
        )
        try:
            kubectl("exec", pod, "--", "sh", "-c", later)
        except AssertionError:
            found = self.user.pod(pod)
            assert not found or found["status"]["phase"] != "Running"

    def container(self) -> dict[str, Any]:
        """Return fields of the container of each pod."""
        return super().container() | {"image": PYTHON, "command": COMMAND, "imagePullPolicy": "IfNotPresent"}


@contextmanager
def room_for_four(kubectl: Kubectl) -> Iterator[None]:
    """Let the worker nodes advertise the resource, and create two PriorityClasses, `low` and `high`."""
    try:
        for node in kind.WORKERS:
            _advertise(kubectl, node, OF_A_NODE)
        for node in kind.WORKERS:
            eventually(lambda node=node: _allocatable(kubectl, node) == OF_A_NODE, PATIENCE, every=1)
        for name, value in PRIORITIES.items():
            kubectl("create", "priorityclass", name, f"--value={value}")
        yield
    finally:
        kubectl("delete", "--ignore-not-found", "priorityclass", *PRIORITIES)
        for node in kind.WORKERS:
            _advertise(kubectl, node, None)


def _advertise(kubectl: Kubectl, node: str, number: str | None) -> None:
    status = {"status": {"capacity": {RESOURCE: number}, "allocatable": {RESOURCE: number}}}
    kubectl("patch", "node", node, "--subresource=status", "--type=merge", "--patch", json.dumps(status))


def _allocatable(kubectl: Kubectl, node: str) -> str | None:
    found = json.loads(kubectl("get", "node", node, "--output=json"))
    return found["status"]["allocatable"].get(RESOURCE)

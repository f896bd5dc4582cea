"""A node that is stopped, cut off or drained, and the administrator's actions."""

from __future__ import annotations

from support import UserClient
from support.user_client import MERGE
from testbed import docker, kind

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NETWORK = "kind"


class Node:
    """One of kind's nodes, which is a container of docker's."""

    def __init__(self, user: UserClient, name: str) -> None:
        self._hand, self.name = user, name
        self._path = f"/api/v1/nodes/{name}"

    def stop(self) -> None:
        """Its power fails."""
        docker.docker("kill", self.name)

    def start(self) -> None:
        """It is switched on again, and is ready when this returns."""
        docker.docker("start", self.name)
        kind.await_node(self.name)

    def disconnect(self) -> None:
        """Its network fails; its containers run on."""
        docker.docker("network", "disconnect", NETWORK, self.name)

    def connect(self) -> None:
        """Its network works again, and it is ready when this returns."""
        docker.docker("network", "connect", NETWORK, self.name)
        kind.await_node(self.name)

    def take_out_of_service(self) -> None:
        """Say that it is off and stays off, so that Kubernetes gives its pods up (never while they may still run)."""
        self._taint([{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}])

    def put_into_service(self) -> None:
        """Take that back."""
        self._taint([])

    @property
    def ready(self) -> bool:
        """Return whether the node is Ready."""
        conditions = self._hand.call("GET", self._path)["status"]["conditions"]
        return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)

    def _taint(self, added: list[dict]) -> None:
        taints = self._hand.call("GET", self._path)["spec"].get("taints", [])
        kept = [taint for taint in taints if taint["key"] != OUT_OF_SERVICE]
        self._hand.call("PATCH", self._path, {"spec": {"taints": kept + added}}, MERGE)

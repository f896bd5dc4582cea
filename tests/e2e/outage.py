"""A node that dies and comes back, and what people do about that by hand."""

from __future__ import annotations

from bed.cluster import Cluster
from bed.node import NAME
from rig import Hand
from rig.hand import MERGE, eventually

from .conftest import PATIENCE

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Node:
    """The node, which can be switched off, and is then said to be so, as one does with a node that is dead.

    The operator runs on this only node as well: it is made to tolerate what is said of it.
    """

    def __init__(self, hand: Hand) -> None:
        self._hand, self._node = hand, Cluster().node
        self._path = f"/api/v1/nodes/{NAME}"
        self._operator = "/apis/apps/v1/namespaces/trainshed-system/deployments/trainshed"

    def tolerate(self, *keys: str) -> None:
        """Let the operator stay, whatever of this is said of its node."""
        tolerations = [{"key": key, "operator": "Exists"} for key in keys]
        patch = {"spec": {"template": {"spec": {"tolerations": tolerations}}}}
        generation = self._hand.call("PATCH", self._operator, patch, MERGE)["metadata"]["generation"]
        eventually(lambda: rolled_out(self._hand.call("GET", self._operator), generation), PATIENCE)

    def switch_off(self) -> None:
        """Its kubelet says no more."""
        next(process for process in self._node.processes if process.name == "kubelet").stop()
        taints = [{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]
        self._hand.call("PATCH", self._path, {"spec": {"taints": taints}}, MERGE)

    def switch_on(self) -> None:
        """What we have said of it is taken back; what Kubernetes says keeps pods away until its kubelet answers."""
        taints = self._hand.call("GET", self._path)["spec"].get("taints", [])
        kept = [taint for taint in taints if taint["key"] != OUT_OF_SERVICE]
        self._hand.call("PATCH", self._path, {"spec": {"taints": kept}}, MERGE)
        self._node.start()


def rolled_out(deployment: dict, generation: int) -> bool:
    """Whether all replicas are of this generation, and ready."""
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    counts = {status.get(count) for count in ("replicas", "updatedReplicas", "readyReplicas")}
    return status.get("observedGeneration", 0) >= generation and counts == {wanted}

"""Jobs without a node where nodes may be read: which are full, too small, or not for these pods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as of

from support.queue_stories import GANG, NO_HELP, NODES_ARE
from support.replace import replace
from trainshed.fit.amounts import parsed
from trainshed.fit.node_selection import Taint
from trainshed.fit.packing import RoomOfNode
from trainshed.views.story import Story

from .job_stories import GPUS, LIMITS, a_training, unplaced


def a_node(name: str, gpus: int = 0, taint: str = "", **labels: str) -> RoomOfNode:
    """A node without pods that has so many GPUs, 64 processors and 256Gi."""
    free = parsed({"cpu": "64", "memory": "256Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}))
    return RoomOfNode(name, labels, (Taint(taint, "", "NoSchedule"),) if taint else (), free)


#: The stories by what they are about.
NODE_STORIES: dict[str, Callable[[], Story]] = {
    "not-offered": of(unplaced, message=GPUS, nodes=[a_node("node-a"), a_node("node-b")]),
    "larger-than-each-node": of(
        *(unplaced, "Unschedulable", GPUS),
        nodes=[a_node("node-a", 2), a_node("node-b", 4), a_node("node-c", 8, "team-x"), a_node("node-d")],
    ),
    "larger-in-two-ways": of(
        unplaced, message=GPUS, nodes=[a_node("node-a", 4)], job=a_training(limits=LIMITS | {"memory": "1Ti"})
    ),
    "no-node-has-all": of(
        *(unplaced, "Unschedulable", GPUS),
        nodes=[a_node("node-a", 8), replace(a_node("node-b", 4), free=parsed({"memory": "2Ti", "pods": "110"}))],
        job=a_training(limits=LIMITS | {"memory": "1Ti"}),
    ),
    "nodes-are-full": of(
        unplaced, message=GPUS, nodes=[a_node("node-a", 4), *(a_node(f"gpu-{n}", 8) for n in "12345")]
    ),
    "gang-and-nodes-are-full": of(unplaced, message=GANG, nodes=[a_node(f"gpu-{n}", 8) for n in "1234"]),
    "gang-beyond-all-nodes": of(unplaced, message=GANG, nodes=[a_node("gpu-1", 8), a_node("gpu-2", 16)]),
    "beyond-all-nodes": of(
        *(unplaced, "Unschedulable", GPUS),
        nodes=[a_node(f"gpu-{n}", 12) for n in "12"],
        job=replace(a_training(), groups=a_training().groups[1:]),
    ),
    "no-node-with-the-label": of(
        unplaced,
        message=f"{NODES_ARE} 4 node(s) didn't match Pod's node affinity/selector. {NO_HELP}",
        nodes=[a_node("node-a", 8, gpu="h100"), a_node("node-b", 8, gpu="h100"), a_node("node-c", 8, "team-x")],
        job=a_training(selector={"gpu": "a100"}),
    ),
    "waits-for-other-than-room": of(
        *(unplaced, "Unschedulable", f"{NODES_ARE} 4 node(s) didn't match pod anti-affinity rules. {NO_HELP}"),
        nodes=[a_node(f"gpu-{n}", 8) for n in "1234"],
    ),
    "unbound-volume": of(
        unplaced, message="0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    ),
    "no-label": of(unplaced, message=f"{NODES_ARE} 4 node(s) didn't match Pod's node affinity/selector. {NO_HELP}"),
    "no-label-and-no-room": of(
        *(unplaced, "Unschedulable"),
        f"{NODES_ARE} 1 node(s) had untolerated taint {{node-role.kubernetes.io/control-plane: }}, 1 Insufficient cpu,"
        f" 2 node(s) didn't match Pod's node affinity/selector. {NO_HELP}",
    ),
}

"""Devices that jobs use, by namespace, against what nodes offer."""

from __future__ import annotations

from datetime import UTC, datetime

from trainshed.fit.packing import RoomOfNode
from trainshed.ui.device_use import MOST_NAMESPACES, MOST_RESOURCES, OTHERS, DeviceUse, devices, offered
from trainshed.ui.model import SeenPod

GPU = "nvidia.com/gpu"


def pod(namespace: str, gpus: object = 8, *, node: str = "n", phase: str = "Running", resource: str = GPU) -> SeenPod:
    container = {"name": "pytorch", "resources": {"limits": {resource: gpus, "cpu": "4"}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return SeenPod({"metadata": {"namespace": namespace}, "spec": spec, "status": {"phase": phase}})


def node(**free: int) -> RoomOfNode:
    return RoomOfNode("n", {}, (), {name.replace("_", "/"): amount * 1000 for name, amount in free.items()})


def test_nodes_offer_extended_resources_only():
    assert offered([node(cpu=64, memory=1, a_gpu=8), node(a_gpu=4, b_tpu=2)]) == {"a/gpu": 12, "b/tpu": 2}


def test_pods_with_a_node_use_devices_and_those_without_wait():
    found = devices([[pod("ml"), pod("ml", 4, node="")], [pod("ml", "2")], [pod("vision", 1)]], {GPU: 64})
    assert [(one.resource, one.offered, one.in_use, one.waiting) for one in found] == [(GPU, 64, 11, 4)]
    assert found[0].by_namespace == {"ml": DeviceUse(10, 4, 2), "vision": DeviceUse(1, 0, 1)}


def test_pods_that_have_ended_or_are_gone_use_nothing():
    gone = SeenPod(pod("ml").document, datetime(2026, 1, 1, tzinfo=UTC))
    found = devices([[pod("ml", phase="Succeeded"), pod("ml", phase="Failed"), gone]], {GPU: 8})
    assert found[0].by_namespace == {}


def test_a_resource_that_no_node_offers_is_there_and_what_may_not_be_read_is_not_zero():
    assert devices([[pod("ml")]], {})[0].offered == 0
    assert devices([[pod("ml")]], None)[0].offered is None


def test_hostile_resources_are_bounded():
    pods = [pod(f"n{number}", resource=f"x{number}.example/gpu") for number in range(MOST_RESOURCES * 2)]
    assert len(devices([pods], None)) == MOST_RESOURCES
    many = [pod(f"n{number}", 1) for number in range(MOST_NAMESPACES + 5)]
    found = devices([many], None)[0]
    assert (len(found.by_namespace), found.by_namespace[OTHERS].in_use, found.in_use) == (
        MOST_NAMESPACES + 1,
        5,
        MOST_NAMESPACES + 5,
    )


def test_odd_amounts_and_documents_count_nothing():
    odd = [SeenPod({}), SeenPod({"spec": {"containers": "x"}, "status": 3}), pod("ml", "a lot"), pod("ml", [1])]
    assert devices([odd], None) == []

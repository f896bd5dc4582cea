"""What is read of nodes and of the pods on them."""

from __future__ import annotations

from support.listed_cluster import listed_cluster
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.node_reader import MOST_KINDS, MOST_OF_NODE, UsedOfNode, read_nodes, read_used, with_used
from trainshed.client.transport import RestClient
from trainshed.fit.node_selection import UNSCHEDULABLE, Taint
from trainshed.fit.packing import RoomOfNode

ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "8", "pods": "10"}
GI = 1024**3 * 1000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone"}]}]}}}


def pod(node: str | None, priority: int | None = None, *, gates: list | None = None, **requests: str) -> dict:
    container = {"name": "a", "resources": {"requests": requests}, "ports": [{"containerPort": 1, "hostPort": 22}]}
    spec = {"nodeName": node, "priority": priority, "containers": [container, {"name": "b"}], "schedulingGates": gates}
    return {"metadata": {"name": "p"}, "spec": spec}


async def test_pods_are_subtracted_from_their_nodes_and_only_sums_are_kept(tmp_path):
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = [
        {"metadata": {"name": "a", "labels": {"zone": "x"}}, "status": {"allocatable": ALLOCATABLE}},
        {"metadata": {"name": "b"}, "spec": {"unschedulable": True, "taints": [taint]}},
    ]
    pods = [
        *(pod("a", priority, cpu="500m", memory="1Gi", own="1") for priority in (None, 7, 7)),
        pod("gone", cpu="1"),
        *[{"spec": pod(None, cpu="1")["spec"] | {"affinity": AFFINITY}}] * 2,
        pod(None, gates=[{"name": "kueue"}], cpu="1"),
        {
            "metadata": {"name": "odd"},
            "spec": {"nodeName": "a", "containers": [{"resources": {"requests": {"cpu": 1}}}]},
        },
    ]
    with listed_cluster(tmp_path, {"nodes": nodes, "pods": pods}) as kubeconfig:
        rest = RestClient(HttpTransport(find_credentials(str(kubeconfig), "")))
        empty, used = await read_nodes(rest), await read_used(rest)
        await rest.close()
    (waiting,) = used.waiting
    assert (waiting.count, waiting.requests["cpu"], waiting.ports) == (2, 1000, {("TCP", 22)})
    assert waiting.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchFields"] is None
    first, second = with_used(empty, used)
    assert first.free == {"cpu": 2500, "memory": 5 * GI, "nvidia.com/gpu": 8000, "pods": 6000}
    assert first.ports == {("TCP", 22)}
    assert first.lower[1] == (7, {"cpu": 1000, "memory": 2 * GI, "own": 2000, "pods": 2000})
    assert first.labels == {"zone": "x"}
    taints = (Taint(UNSCHEDULABLE, "", "NoSchedule"), Taint("gpu", "yes", "NoSchedule"))
    assert second == RoomOfNode("b", {}, taints, {})


async def test_of_pods_that_wait_few_kinds_are_kept(tmp_path):
    pods = [pod(None, cpu=str(number)) for number in range(MOST_KINDS + 9)]
    with listed_cluster(tmp_path, {"pods": pods}) as kubeconfig:
        rest = RestClient(HttpTransport(find_credentials(str(kubeconfig), "")))
        used = await read_used(rest)
        await rest.close()
    assert [item.count for item in used.waiting] == [1] * MOST_KINDS + [9]
    assert used.waiting[-1].requests == {}


def test_of_pods_with_any_number_of_resources_few_are_kept():
    used = UsedOfNode()
    for number in range(40):
        many = {f"a.example.com/r{number}x{other}": "1" for other in range(2_000)}
        used.add(pod("a", **many, cpu="500m")["spec"])
    used.add(pod("a", cpu="1")["spec"])
    sums = used.by_priority[0]
    assert (sums["cpu"], sums["pods"]) == (21_000, 41_000)
    assert len(sums) <= MOST_OF_NODE + 4

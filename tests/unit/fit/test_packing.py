"""Whether pods find room on nodes: taints, selectors, affinity, amounts, ports, preemption and several roles."""

from __future__ import annotations

import time

import pytest

from trainshed.fit.amounts import parsed
from trainshed.fit.assessment import Fit
from trainshed.fit.demands import RoleDemand
from trainshed.fit.node_selection import UNSCHEDULABLE, Taint, excluded
from trainshed.fit.packing import RoomOfNode, WaitingPods, assess, not_counted

GPU = Taint("gpu", "yes", "NoSchedule")


def node(name: str, taints: tuple[Taint, ...] = (), lower=(), ports=(), labels=None, **free: str) -> RoomOfNode:
    amounts = {"pods": 110_000, **parsed({key.replace("gpu", "nvidia.com/gpu"): value for key, value in free.items()})}
    return RoomOfNode(name, labels or {}, taints, amounts, frozenset(ports), lower)


def role(name: str, count: int, priority: int | None = None, spec: dict | None = None, **limits: str) -> RoleDemand:
    resources = {key.replace("gpu", "nvidia.com/gpu"): value for key, value in limits.items()}
    container = {"name": "a", "resources": {"limits": resources}, **(spec or {}).pop("container", {})}
    return RoleDemand(name, tuple(map(str, range(count))), {"containers": [container], **(spec or {})}, priority)


def verdict(demands, nodes) -> tuple[Fit, str]:
    found, _ = assess(demands, nodes)
    return found[0].fit, " / ".join(item.message for item in found)


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        ({"operator": "Exists"}, GPU, True),
        ({"key": "gpu", "operator": "Exists"}, GPU, True),
        ({"key": "gpu", "value": "yes"}, GPU, True),
        ({"key": "gpu", "operator": "Equal", "value": "no"}, GPU, False),
        ({"key": "other", "operator": "Exists"}, GPU, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, GPU, False),
        ({"key": "gpu", "operator": "Newer", "value": "yes"}, GPU, False),
        ({}, GPU, False),
        ({}, Taint("gpu", "yes", "PreferNoSchedule"), True),
        ({"key": UNSCHEDULABLE, "operator": "Exists"}, Taint(UNSCHEDULABLE, "", "NoSchedule"), True),
    ],
)
def test_taints_are_tolerated_as_by_the_scheduler(toleration, taint, expected):
    assert (not excluded({"tolerations": [toleration]}, "n", {}, [taint])) is expected


def term(**expression: object) -> dict:
    return {"matchExpressions": [{"key": "zone", **expression}]}


@pytest.mark.parametrize(
    ("terms", "labels", "expected"),
    [
        ([term(operator="In", values=["a", "b"])], {"zone": "b"}, True),
        ([term(operator="In", values=["a"])], {}, False),
        ([term(operator="NotIn", values=["a"])], {}, True),
        ([term(operator="NotIn", values=["a"])], {"zone": "a"}, False),
        ([term(operator="Exists")], {"zone": ""}, True),
        ([term(operator="DoesNotExist")], {"zone": ""}, False),
        ([term(operator="Gt", values=["4"])], {"zone": "5"}, True),
        ([term(operator="Lt", values=["4"])], {"zone": "5"}, False),
        ([term(operator="Lt", values=["4"])], {"zone": "-1"}, True),
        ([term(operator="Gt", values=["4"])], {"zone": "nine"}, False),
        ([term(operator="Gt", values=["4"])], {"zone": "9" * 5000}, False),
        ([term(operator="Wrong")], {"zone": "a"}, False),
        ([{}], {"zone": "a"}, False),
        ([], {"zone": "a"}, False),
        ([{}, term(operator="Exists")], {"zone": "a"}, True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], {}, True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}], {}, False),
    ],
)
def test_node_affinity_is_matched_as_by_the_scheduler(terms, labels, expected):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert (not excluded({"affinity": {"nodeAffinity": required}}, "n", labels, [])) is expected


@pytest.mark.parametrize(
    ("spec", "labels", "taints", "reason"),
    [
        ({"nodeSelector": {"a": "b"}}, {"a": "b"}, [], ""),
        ({"nodeSelector": {"a": "b"}}, {}, [], "without the label a=b of the nodeSelector"),
        ({"nodeName": "n"}, {}, [GPU], ""),
        ({"nodeName": "m"}, {}, [], "other than m"),
        ({}, {}, [Taint(UNSCHEDULABLE, "", "NoSchedule")], "cordoned"),
        ({}, {}, [GPU], "with the taint gpu=yes:NoSchedule, which is not tolerated"),
    ],
)
def test_why_a_node_is_excluded(spec, labels, taints, reason):
    assert excluded(spec, "n", labels, taints) == reason


EIGHT = [node(f"n{index}", gpu="8", cpu="32", memory="256Gi") for index in range(2)]
PORT = {"container": {"ports": [{"containerPort": 1, "hostPort": 2222}]}}


@pytest.mark.parametrize(
    ("demands", "nodes", "fits", "said"),
    [
        ([role("Worker", 2, gpu="8")], EIGHT, Fit.OK, "all 2 pods find room on 2 of 2 nodes"),
        ([role("Worker", 1, gpu="8")], EIGHT, Fit.OK, "the pod finds room"),
        ([role("Worker", 2, gpu="4")], EIGHT[:1], Fit.OK, "all 2 pods find room on 1 of 1 node"),
        ([role("Worker", 4, gpu="4")], EIGHT, Fit.OK, "all 4 pods find room on 2 of 2 nodes"),
        (
            [role("Worker", 3, gpu="8")],
            EIGHT,
            Fit.LACKING,
            "1 of 3 Worker pods finds no node, requesting 8 nvidia.com/gpu. Of 2 nodes: 2 with room",
        ),
        (
            [role("Worker", 3, gpu="6")],  # there are enough in total
            EIGHT,
            Fit.LACKING,
            "1 of 3 Worker pods finds no node, requesting 6 nvidia.com/gpu. Of 2 nodes: 2 with room",
        ),
        (
            [role("Worker", 2, gpu="1", cpu="40")],
            [*EIGHT, node("big", (GPU,), gpu="8", cpu="80")],
            Fit.LACKING,
            "Of 3 nodes: 2 with too little cpu (at most 32 free), 1 with the taint gpu=yes:NoSchedule, which is not",
        ),
        ([role("Worker", 1, gpu="1")], [], Fit.LACKING, "The cluster has no nodes"),
        (
            [role("Worker", 2, gpu="1")],
            [node("a"), node("b")],
            Fit.LACKING,
            "2 of 2 Worker pods find no node, together requesting 2 nvidia.com/gpu. No node of the cluster offers",
        ),
        ([role("Worker", 9, gpu="1")], [*EIGHT[:1], node("b")], Fit.LACKING, "1 with room, 1 without any nvidia.com"),
        ([role("Worker", 1)], [node("full", pods="0")], Fit.LACKING, "1 with as many pods as it may have"),
        ([role("Worker", 3)], [node("almost", pods="3")], Fit.OK, "all 3"),
        ([role("Worker", 2, spec=PORT | {})], [node("a"), node("b")], Fit.OK, "all 2"),
        ([role("W", 1, spec=PORT | {})], [node("a", ports=[("TCP", 2222)])], Fit.LACKING, "1 whose port is taken"),
        # the small ones must leave the large node to the large one, and GPUs to those that need them
        (
            [role("Small", 2, cpu="1"), role("Big", 1, cpu="4")],
            [node("a", cpu="4"), node("b", cpu="2")],
            Fit.OK,
            "all 3",
        ),
        (
            [role("PS", 1, cpu="8"), role("Worker", 1, gpu="1", cpu="8")],
            [node("gpus", gpu="1", cpu="8"), node("plain", cpu="9")],
            Fit.OK,
            "all 2",
        ),
        (
            [role("A", 1, cpu="3"), role("B", 1, cpu="3"), role("C", 1, cpu="3"), role("D", 1, cpu="3")],
            [node("a", cpu="6"), node("b", cpu="6")],
            Fit.OK,
            "all 4",
        ),
        (
            [role("A", 2, cpu="3"), role("B", 2, cpu="2")],
            [node("a", cpu="5"), node("b", cpu="4")],
            Fit.LACKING,
            "all nodes together lack 1 cpu",
        ),
        (
            [role("A", 1, cpu="3"), role("B", 1, memory="2Gi")],
            [node("a", cpu="4", memory="3Gi", pods="1")],
            Fit.LACKING,
            "each role alone has room: there may be a way to place all of them that was not tried",
        ),
    ],
)
def test_pods_are_placed_or_it_is_said_what_is_missing(demands, nodes, fits, said):
    found, text = verdict(demands, nodes)
    assert (found, said in text) == (fits, True), text


LOW = ((0, {"cpu": 3000, "pods": 2000}), (500, {"cpu": 4000, "pods": 1000}))


@pytest.mark.parametrize(
    ("priority", "policy", "cpu", "fits"),
    [
        (1000, None, "8", Fit.WARNING),
        (1000, "Never", "8", Fit.LACKING),
        (500, None, "4", Fit.WARNING),
        (500, None, "5", Fit.LACKING),
        (0, None, "4", Fit.LACKING),
        (None, None, "4", Fit.LACKING),
    ],
)
def test_pods_of_lower_priority_may_be_preempted(priority, policy, cpu, fits):
    demand = role("Worker", 1, priority, {"preemptionPolicy": policy}, cpu=cpu)
    assert verdict([demand], [node("a", lower=LOW, cpu="1")])[0] is fits


def test_what_a_job_takes_is_not_there_for_the_next_one():
    _, left = assess([role("Worker", 1, gpu="6")], EIGHT)
    assert verdict([role("Worker", 3, gpu="3")], left)[0] is Fit.LACKING
    assert verdict([role("Worker", 1, gpu="8"), role("Master", 1, gpu="2")], left)[0] is Fit.OK


def waits(count: int, priority: int | None = None, spec: dict | None = None, **limits: str) -> WaitingPods:
    kind = role("W", 1, spec=spec, **limits)
    return WaitingPods(kind.spec, kind.requests, frozenset(), priority, count)


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        ([waits(2), waits(1, gpu="8")], "3 pods in the cluster wait for a node, and may take this room before"),
        ([waits(1)], "1 pod in the cluster waits for a node"),
        ([waits(2, gpu="9"), waits(2, spec={"nodeSelector": {"zone": "b"}}), waits(2, -1)], None),
    ],
)
def test_pods_are_named_that_wait_for_a_node_and_could_take_the_room(waiting, said):
    found, _ = assess([role("Worker", 1)], EIGHT, waiting=waiting)
    assert [item.message for item in found[1:]] == ([found[1].message] if said else [])
    assert said is None or found[1].message.startswith(said)


REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"affinity": {"podAntiAffinity": REQUIRED}}, "required pod anti-affinity of Worker"),
        ({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, None),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "topology spread constraints of Worker"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, None),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims (DRA) of Worker"),
    ],
)
def test_what_is_not_compared_with_nodes_is_said(spec, said):
    found = list(not_counted([role("Worker", 1, spec=spec)]))
    assert [said in item.message for item in found] == ([True] if said else [])


def test_five_thousand_replicas_are_packed_in_seconds():
    nodes = [node(f"n{index}", gpu=str(index % 9), cpu="96", memory="512Gi") for index in range(5000)]
    demands = [role("Chief", 1, 0, gpu="8"), role("PS", 500, 0, gpu="1"), role("Worker", 5000, 0, gpu="4", cpu="4")]
    start = time.process_time()
    found, _ = assess(demands, nodes)
    assert time.process_time() - start < 20, "it takes about two seconds"
    assert found[0].message.startswith(
        "1669 of 5000 Worker pods find no node, together requesting 6676 nvidia.com/gpu"
    ), found[0].message

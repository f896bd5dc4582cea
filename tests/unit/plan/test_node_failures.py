"""What a node says decides the class of a failure if it began while the replica ran there; else it is only reported."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import a_job, a_pod, at, seen
from trainshed.api.framework import JobDefaults
from trainshed.api.node_report import node_report
from trainshed.api.objects import NodeReport
from trainshed.plan import plan

SITE = JobDefaults(node_health=True)
DURING, BEFORE, LONG_AFTER = "2026-01-01T12:00:20Z", "2026-01-01T11:00:00Z", "2026-01-01T12:10:00Z"
XID = "ErrorCode:79 GPU:0 GPU has fallen off the bus Recommended Action=RESTART_BM;"
SAID = "ErrorCode:79 GPU:0 GPU has fallen off the bus Recommended Action=RESTART_BM"
DEADLOCK = {"reason": "DockerHung", "message": "task docker:7 blocked for more than 120 seconds."}
POOL = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
EVENTS = [
    {"type": "Warning", "reason": "TaskHung", "message": "task hung", "lastTimestamp": DURING},
    {"type": "Warning", "reason": "TaskHung", "message": "task hung", "eventTime": "2026-01-01T12:00:10.5Z"},
    {"type": "SysLogsXIDError", "reason": "XidIsNotHealthy", "series": {"lastObservedTime": "2026-01-01T12:00:30Z"}},
    {"type": "Normal", "reason": "Starting", "lastTimestamp": DURING},
    {"type": "Warning", "reason": "Rebooted", "lastTimestamp": BEFORE},
    {"type": "Warning", "reason": "NoTime"},
]


def condition(kind, status="True", since=DURING, **said):
    return {"type": kind, "status": status, "lastTransitionTime": since, **said}


def node(*conditions, annotations=None, **spec):
    return {"metadata": {"annotations": annotations}, "spec": spec, "status": {"conditions": list(conditions)}}


def quarantined(*conditions, **spec):
    return node(*conditions, annotations={"quarantineHealthEvent": "[…]"}, unschedulable=True, **spec)


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": DURING}
HEALTHY = node(
    condition("Ready"), condition("MemoryPressure"), condition("KernelDeadlock", "False"), condition("EtcdIsVoter"),
    condition("KernelReady"), condition("XidWatch", "Unknown"), taints=[POOL], unschedulable=False,
)  # fmt: skip
#: A node and its Events; the class of the failure of a program that ran there from 12:00:00 to 12:00:30, and the words.
NODES = {
    "healthy": (HEALTHY, [], "Application", ""),
    "gone": ({}, [], "Application", ""),
    "cordoned": (node(unschedulable=True, taints=[CORDON]), [], "Application", "said about node-b: cordoned"),
    "a condition of the time": (
        node(condition("KernelDeadlock", **DEADLOCK)), [], "Infrastructure",
        "node-b failed meanwhile: KernelDeadlock: task docker:7 blocked for more than 120 seconds",
    ),
    "an old condition": (
        node(condition("KernelDeadlock", since=BEFORE, reason="DockerHung")), [], "Application",
        "node-b had problems before: KernelDeadlock: DockerHung",
    ),
    "a condition without a time": (
        node(condition("KernelDeadlock", since=None)), [], "Application", "said about node-b: KernelDeadlock",
    ),
    "a later condition": (node(condition("KernelDeadlock", since=LONG_AFTER)), [], "Application", ""),
    "NVSentinel": (
        quarantined(condition("SysLogsXIDError", reason="SysLogsXIDErrorIsNotHealthy", message=XID)), [],
        "Infrastructure", f"node-b failed meanwhile: quarantined, SysLogsXIDError: {SAID}",
    ),
    "NVSentinel with a time": (
        quarantined(taints=[POOL, CORDON]), [], "Infrastructure", "node-b failed meanwhile: quarantined",
    ),
    "NVSentinel without": (quarantined(), [], "Application", "said about node-b: quarantined"),
    "not ready": (
        node(condition("Ready", "Unknown", reason="NodeStatusUnknown", message="Kubelet stopped posting")), [],
        "Infrastructure", "node-b failed meanwhile: not ready: Kubelet stopped posting",
    ),
    "the agent of EKS": (
        node(condition("AcceleratedHardwareReady", "False", reason="NvidiaXID79Error")), [], "Infrastructure",
        "node-b failed meanwhile: AcceleratedHardwareReady: NvidiaXID79Error",
    ),
    "Events": (
        HEALTHY, EVENTS, "Application", "said about node-b: XidIsNotHealthy: XidIsNotHealthy, TaskHung: task hung",
    ),
    "a taint": (
        node(taints=[POOL | {"key": "broken", "timeAdded": DURING}]), [], "Infrastructure",
        "node-b failed meanwhile: taint broken:NoSchedule",
    ),
    "two times": (
        node(condition("A", message="x"), condition("B", since=BEFORE), unschedulable=True), [], "Infrastructure",
        "node-b failed meanwhile: A: x; node-b had problems before: B; said about node-b: cordoned",
    ),
    "hostile": (
        node(condition("A", message="\x1b[2Jone\ntwo" + "x" * 200)), [], "Infrastructure",
        f"node-b failed meanwhile: A: one two{'x' * 152}…",
    ),
    "nonsense": (
        {"metadata": 1, "spec": {"taints": [1, {"timeAdded": "x"}], "unschedulable": "yes"}, "status": 7},
        [{"reason": 1}], "Application", "",
    ),
}  # fmt: skip


def snapshot(*, reports=(), why="", job_defaults=SITE, **fields):
    pod = a_pod("worker-0", "Failed", code=1, ended=30, why=why, node="node-b", **fields)
    found = seen(a_job(worker=1), pod, now=at(31), job_defaults=job_defaults)
    return replace(found, node_reports={report.name: report for report in reports})


@pytest.mark.parametrize(("node", "events", "kind", "words"), NODES.values(), ids=NODES.keys())
def test_the_class_and_the_words_follow_from_the_node(node, events, kind, words):
    failure = plan(snapshot(reports=[node_report("node-b", node, events)])).status.failure
    assert failure.kind == kind
    assert failure.message == f"worker-0 on node-b exited with code 1 after 30s{f' ({words})' if words else ''}"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"why": "OOMKilled"}, "node-b failed meanwhile: A: x"),
        ({"started": -at(0).timestamp()}, "said about node-b: A: x"),
    ],
)
def test_a_program_that_uses_too_much_memory_or_never_started_has_its_own_class(fields, words):
    report = node_report("node-b", node(condition("A", message="x")), EVENTS if "started" in fields else ())
    failure = plan(snapshot(reports=[report], **fields)).status.failure
    assert (failure.kind, failure.message.endswith(f" ({words})")) == ("Application", True)


def test_a_failure_because_of_the_node_is_retried_and_not_counted():
    report = node_report("node-b", node(condition("A")), ())
    restarted, failed = plan(snapshot(reports=[report])), plan(snapshot(reports=[NodeReport("node-b")]))
    assert (restarted.status.over, restarted.status.retries.used) == (False, 0)
    assert restarted.status.attempts == {"Worker": 1}
    assert failed.status.over


def test_nodes_are_read_only_for_failures_that_decide_and_with_the_flag_three_at_most():
    assert plan(snapshot()).nodes_to_read == ("node-b",)
    assert plan(snapshot(job_defaults=JobDefaults())).nodes_to_read == ()
    assert plan(snapshot(reports=[NodeReport("node-b")])).nodes_to_read == ()
    pods = [a_pod(f"worker-{number}", "Failed", code=1, ended=9 - number, node=f"node-{number}") for number in range(5)]
    job = a_job(worker=6, restart="ExitCode")
    assert plan(seen(job, *pods, now=at(60), job_defaults=SITE)).nodes_to_read == ("node-4", "node-3", "node-2")
    settling = seen(job, *pods[:1], a_pod("worker-5"), now=at(10), job_defaults=SITE)
    assert plan(settling).nodes_to_read == (), "the cause may still become known"

"""What pods ask for, as the scheduler and quotas count it."""

from __future__ import annotations

import pytest

from trainshed.fit import amounts
from trainshed.fit.demands import host_ports, is_best_effort, pod_amounts

GI = 1024**3 * 1000


def asks(**requests: str) -> dict:
    return {"resources": {"requests": requests}}


SIDECAR = {"restartPolicy": "Always", **asks(cpu="2")}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [asks(cpu="1500m"), asks(cpu="1", memory="1Gi")]}, {"cpu": 2500, "memory": GI}),
        ({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}, {"cpu": 1000}),
        ({"containers": [asks(cpu="1")], "initContainers": [asks(cpu="3"), asks(cpu="2")]}, {"cpu": 3000}),
        ({"containers": [asks(cpu="1")], "initContainers": [SIDECAR]}, {"cpu": 3000}),
        ({"containers": [asks(cpu="1")], "initContainers": [SIDECAR, asks(cpu="2")]}, {"cpu": 4000}),
        ({"containers": [asks(cpu="1")], "initContainers": [asks(cpu="2"), SIDECAR]}, {"cpu": 3000}),
        ({"containers": [asks(cpu="1", gpu="1")], **asks(cpu="5", gpu="7")}, {"cpu": 5000, "gpu": 1000}),
        ({"containers": [asks(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}, {"cpu": 1250, "memory": GI}),
        ({"containers": [asks(cpu="0.1m", memory="none"), "no container"]}, {"cpu": 1}),
        ({"containers": None, "initContainers": {}}, {}),
    ],
)
def test_requests_of_a_pod_are_counted_as_the_scheduler_counts_them(spec, expected):
    assert pod_amounts(spec, "requests") == expected


def test_the_overhead_counts_as_a_limit_only_beside_another_limit():
    spec = {"containers": [{"resources": {"limits": {"cpu": "1"}}}], "overhead": {"cpu": "1", "memory": "1Gi"}}
    assert pod_amounts(spec, "limits") == {"cpu": 2000}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{}]}, True),
        ({"containers": [asks(gpu="1")]}, True),
        ({"containers": [{}], "initContainers": [asks(cpu="1")]}, False),
        ({"containers": [{"resources": {"limits": {"memory": "1Gi"}}}]}, False),
        ({"containers": [{}], **asks(cpu="1")}, False),
    ],
)
def test_a_pod_without_processors_and_memory_is_best_effort(spec, expected):
    assert is_best_effort(spec) is expected


@pytest.mark.parametrize(
    ("port", "host", "expected"),
    [
        ({"containerPort": 80}, False, set()),
        ({"containerPort": 80, "hostPort": 8080}, False, {("TCP", 8080)}),
        ({"containerPort": 80, "protocol": "UDP"}, True, {("UDP", 80)}),
    ],
)
def test_ports_of_the_host_are_known(port, host, expected):
    assert host_ports({"hostNetwork": host, "containers": [{"ports": [port]}]}) == expected


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [
        ("cpu", 1500, "1500m"),
        ("nvidia.com/gpu", 8000, "8"),
        ("memory", 64 * GI, "64Gi"),
        ("requests.memory", 263850372 * 1024 * 1000, "251.6Gi"),
        ("limits.ephemeral-storage", 1536 * 1024**2 * 1000, "1.5Gi"),
        ("hugepages-2Mi", 12345678 * 1024 * 1000, "11.7Gi"),
        ("memory", 123456 * 1000, "120.5Ki"),
    ],
)
def test_amounts_are_shown_short(name, amount, expected):
    assert amounts.shown(name, amount) == expected


def test_devices_come_first_in_a_list():
    found = {"memory": GI, "cpu": 1000, "nvidia.com/gpu": 2000, "pods": 1000}
    assert amounts.listed(found) == "2 nvidia.com/gpu, 1 cpu, 1Gi memory, 1 pods"

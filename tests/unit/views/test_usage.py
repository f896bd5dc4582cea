"""The rows of `trainshed top`."""

from __future__ import annotations

import time

from trainshed.views import usage


def pod(name: str, node: str, **limits: str) -> dict:
    container = {"name": "pytorch", "resources": {"limits": limits, "requests": {"cpu": "1500m"}}}
    spec = {"nodeName": node, "containers": [container, {"name": "sidecar"}]}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


def used(name: str, cpu: str, memory: str) -> dict:
    containers = [{"usage": {"cpu": cpu, "memory": memory}}, {"usage": {"cpu": "1m", "memory": "1Mi"}}]
    return {"metadata": {"name": name}, "containers": containers}


def test_replicas_come_in_order_with_what_they_request_and_use():
    limits = {"memory": "2Gi", "nvidia.com/gpu": "8"}
    pods = [pod(f"mnist-worker-{index}", "a" if index == 2 else "", **limits) for index in (10, 2)]
    metrics = [used("mnist-worker-2", "249000000n", "1048575Ki"), used("other-pod", "5", "5Gi")]
    devices = "8 nvidia.com/gpu"
    assert usage.rows("mnist", pods, metrics) == [
        ("worker-2", "a", "Running", "250m", "1500m", "<none>", "1025Mi", "2048Mi", "2048Mi", devices),
        ("worker-10", "<none>", "Pending", "<unknown>", "1500m", "<none>", "<unknown>", "2048Mi", "2048Mi", devices),
        ("total", "", "", "250m", "3000m", "<none>", "1025Mi", "4096Mi", "4096Mi", "16 nvidia.com/gpu"),
    ]


def test_what_is_not_requested_is_not_invented():
    bare = {"metadata": {"name": "mnist-master-0"}, "spec": {"containers": [{"name": "pytorch"}]}}
    (row,) = usage.rows("mnist", [bare], [])
    assert row == ("master-0", "<none>", "", "<unknown>", "<none>", "<none>", "<unknown>", "<none>", "<none>", "<none>")


def test_many_devices_cost_little_time_and_one_short_cell():
    pods = [pod(f"mnist-worker-{n}", "a", **{f"example.com/r{n}x{i}": "1" for i in range(2_000)}) for n in range(20)]
    began = time.thread_time()
    rows = usage.rows("mnist", pods, [])
    assert time.thread_time() - began < 20, "each name over all containers takes a minute"
    assert rows[-1][-1].endswith(" and 39992 more")
    assert max(len(cell) for row in rows for cell in row) <= 320

"""Resources and labels have the values that a kubelet gives them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from trainshed.local.node.downward import as_lines, limits, of_pod, resource_value

NODE = {"cpu": Decimal("7.91"), "memory": Decimal(32_000_000_001), "ephemeral-storage": Decimal(10**11)}


@pytest.mark.parametrize(
    ("resources", "selector", "value"),
    [
        ({"limits": {"cpu": "250m"}}, {"resource": "limits.cpu"}, "1"),
        ({"limits": {"cpu": "250m"}}, {"resource": "limits.cpu", "divisor": "1m"}, "250"),
        ({"limits": {"cpu": "250m"}}, {"resource": "limits.cpu", "divisor": "0"}, "1"),
        ({"limits": {"cpu": "1500m"}}, {"resource": "limits.cpu", "divisor": "1"}, "2"),
        ({"limits": {"cpu": 2}}, {"resource": "limits.cpu"}, "2"),
        ({"limits": {"cpu": "100u"}}, {"resource": "limits.cpu", "divisor": "1m"}, "1"),
        ({"limits": {"cpu": "0.0011"}}, {"resource": "limits.cpu", "divisor": "1m"}, "2"),
        ({"limits": {"memory": "64Mi"}}, {"resource": "limits.memory"}, "67108864"),
        ({"limits": {"memory": "64Mi"}}, {"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"limits": {"memory": "64Mi"}}, {"resource": "limits.memory", "divisor": "1Gi"}, "1"),
        ({"limits": {"memory": "1500M"}}, {"resource": "limits.memory", "divisor": "1Ki"}, "1464844"),
        ({"limits": {"memory": "128974848500m"}}, {"resource": "limits.memory"}, "128974849"),
        ({"limits": {"memory": "1e3"}}, {"resource": "limits.memory", "divisor": "1k"}, "1"),
        ({"limits": {"ephemeral-storage": "2Gi"}}, {"resource": "limits.ephemeral-storage", "divisor": "1Mi"}, "2048"),
        ({"requests": {"cpu": "125m"}}, {"resource": "requests.cpu", "divisor": "1m"}, "125"),
        ({"requests": {"memory": "1Gi"}}, {"resource": "requests.memory", "divisor": "1M"}, "1074"),
        ({"requests": {"ephemeral-storage": 5}}, {"resource": "requests.ephemeral-storage"}, "5"),
        ({"limits": {"hugepages-2Mi": "8Mi"}}, {"resource": "limits.hugepages-2Mi", "divisor": "1Mi"}, "8"),
        ({"limits": {"hugepages-2Mi": "8Mi"}}, {"resource": "requests.hugepages-2Mi"}, "8388608"),
        ({}, {"resource": "limits.hugepages-1Gi"}, "0"),
        # A container without a limit may use what the node has; one without a request requests its limit, or nothing.
        ({}, {"resource": "limits.cpu"}, "8"),
        ({"limits": {"cpu": 0}}, {"resource": "limits.cpu", "divisor": "1m"}, "7910"),
        ({}, {"resource": "limits.memory", "divisor": "1Mi"}, "30518"),
        ({}, {"resource": "limits.ephemeral-storage", "divisor": "1G"}, "100"),
        ({}, {"resource": "requests.cpu"}, "0"),
        ({"limits": {"cpu": 3}}, {"resource": "requests.cpu"}, "3"),
        ({"limits": {"cpu": 3}, "requests": {"cpu": 0}}, {"resource": "requests.cpu"}, "0"),
        ({"limits": {"nvidia.com/gpu": 1}}, {"resource": "limits.nvidia.com/gpu"}, None),
    ],
)
def test_a_resource_is_rounded_up_in_units_of_its_divisor(resources, selector, value):
    assert resource_value({"resources": resources}, selector, NODE) == value


def test_the_limits_of_a_pod_are_those_of_its_containers_without_limits():
    found = of_pod({"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}}}, NODE)
    assert found == {**NODE, "memory": Decimal(1 << 30)}


@pytest.mark.parametrize(
    ("own", "of_pod", "expected"),
    [
        ({}, {}, {}),
        ({"nvidia.com/gpu": 1}, {"memory": "1Gi"}, {"nvidia.com/gpu": "1", "memory": "1Gi"}),
        ({"memory": "64Mi"}, {"memory": "1Gi", "cpu": 2}, {"memory": "64Mi", "cpu": "2"}),
        ({"memory": 0}, {"memory": "1Gi", "cpu": 0}, {"memory": "1Gi"}),
        ({}, {"hugepages-2Mi": "8Mi"}, {}),
    ],
)
def test_a_container_without_limits_of_cpu_and_memory_has_those_of_its_pod(own, of_pod, expected):
    assert limits({"resources": {"limits": own}}, {"resources": {"limits": of_pod}}) == expected


def test_labels_are_sorted_lines_with_the_escapes_of_go():
    entries = {"b": 'say "hi"\\', "a.example/x": "two\nlines\t", "Z": "\x00\x7f\x80é😀\u200b\U000e0001"}
    assert as_lines(entries).splitlines() == [
        r'Z="\x00\x7f\u0080é😀\u200b\U000e0001"',
        r'a.example/x="two\nlines\t"',
        r'b="say \"hi\"\\"',
    ]
    assert as_lines({}) == ""

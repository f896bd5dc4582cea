"""What pods refer to and does not exist is refused before anything starts."""

from __future__ import annotations

import pytest

from trainshed.local.references import problems, too_long

OBJECTS = {
    ("ConfigMap", "settings"): {"data": {"rate": "1"}, "binaryData": {"raw": "AAEC"}},
    ("Secret", "keys"): {"data": {"token": "AA=="}, "stringData": {"user": "me"}},
}


def found(**spec) -> list[str]:
    pods = [{"metadata": {"name": f"w-{number}"}, "spec": {"containers": [], **spec}} for number in range(3)]
    return list(problems(pods, OBJECTS))


def variable(**source) -> dict:
    return {"containers": [{"name": "main", "env": [{"name": "A", "valueFrom": source}]}]}


def everything(*sources: dict) -> dict:
    return {"containers": [{"name": "main", "envFrom": list(sources)}]}


def volume(**source) -> dict:
    return {"volumes": [{"name": "v", **source}]}


def resources(**parts) -> dict:
    return {"containers": [{"name": "main", "resources": parts}]}


def item(field: str, *references: tuple[str, str]) -> dict:
    return {field: {"items": [{"key": key, "path": path} for key, path in references]}}


VALUE, MOUNT = "spec.containers[0].env[0].valueFrom", "spec.volumes[0]"
REFUSED = [
    (variable(configMapKeyRef={"name": "no", "key": "x"}), f"{VALUE}.configMapKeyRef: Not found: ConfigMap no; add it"),
    (variable(configMapKeyRef={"name": "settings", "key": "x"}), "Not found: ConfigMap settings has no key x; add it"),
    (variable(configMapKeyRef={"name": "settings", "key": "raw"}), "Not found: ConfigMap settings has no key raw"),
    (variable(secretKeyRef={"name": "keys", "key": "x"}), f"{VALUE}.secretKeyRef: Not found: Secret keys has no key x"),
    (variable(fieldRef={"fieldPath": "metadata.labels"}), "fieldPath: Unsupported value: metadata.labels"),
    (variable(fieldRef={"fieldPath": "status.phase"}), "fieldPath: Unsupported value: status.phase"),
    (variable(resourceFieldRef={"resource": "limits.nvidia.com/gpu"}), "resource: Unsupported value: limits.nvidia"),
    (variable(resourceFieldRef={"resource": "limits.cpu", "divisor": "2"}), "divisor: Invalid value: 2"),
    (variable(resourceFieldRef={"resource": "limits.memory", "divisor": "1m"}), "divisor: Invalid value: 1m"),
    (variable(resourceFieldRef={"resource": "limits.cpu", "containerName": "x"}), "containerName: Not found: x"),
    (variable(fileKeyRef={"volumeName": "v", "path": "a", "key": "b"}), "fileKeyRef: Forbidden"),
    (variable(), "valueFrom: Invalid value: must specify exactly one source"),
    (
        everything({"configMapRef": {"name": "no"}}),
        "spec.containers[0].envFrom[0].configMapRef: Not found: ConfigMap no",
    ),
    (everything({"secretRef": {"name": "no"}}), "envFrom[0].secretRef: Not found: Secret no"),
    (
        {"initContainers": everything({"secretRef": {"name": "no"}})["containers"]},
        "spec.initContainers[0].envFrom[0].secretRef: Not found: Secret no",
    ),
    (volume(configMap={"name": "no"}), f"{MOUNT}.configMap: Not found: ConfigMap no; add it"),
    (volume(secret={"secretName": "no"}), f"{MOUNT}.secret: Not found: Secret no; add it"),
    (
        volume(secret={"secretName": "keys", **item("", ("x", "y"))[""]}),
        f"{MOUNT}.secret.items[0]: Not found: Secret keys",
    ),
    (
        volume(projected={"sources": [{}, {"configMap": {"name": "settings", "items": [{"key": "x", "path": "y"}]}}]}),
        f"{MOUNT}.projected.sources[1].configMap.items[0]: Not found: ConfigMap settings has no key x",
    ),
    (volume(projected={"sources": [{"secret": {"name": "no"}}]}), "sources[0].secret: Not found: Secret no"),
    (
        volume(
            downwardAPI={"items": [{"path": "a", "resourceFieldRef": {"containerName": "x", "resource": "limits.cpu"}}]}
        ),
        f"{MOUNT}.downwardAPI.items[0].resourceFieldRef.containerName: Not found: x",
    ),
    (volume(emptyDir={"sizeLimit": "much"}), f"{MOUNT}.emptyDir.sizeLimit: Invalid value: much: must be a quantity"),
    (resources(limits={"cpu": "two"}), "spec.containers[0].resources.limits[cpu]: Invalid value: two"),
    (resources(requests={"memory": "-1"}), "resources.requests[memory]: Invalid value: -1: must be greater than"),
    (resources(limits={"nvidia.com/gpu": "500m"}), "limits[nvidia.com/gpu]: Invalid value: 500m: must be an integer"),
    (resources(limits={"nvidia.com/gpu": "1e30"}), "limits[nvidia.com/gpu]: Invalid value: 1e30: must be less than or"),
    (
        resources(limits={"cpu": "9e99"}),
        "resources.limits[cpu]: Invalid value: 9e99: must be less than or equal to 9223",
    ),
    (resources(requests={"memory": "9" * 30 + "Ei"}), "Ei: must be less than or equal to 9223372036854775807"),
    (resources(limits={"cpu": 1}, requests={"cpu": "1001m"}), "must be less than or equal to cpu limit of 1"),
]


@pytest.mark.parametrize(("spec", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
def test_what_does_not_exist_is_refused_once(spec, problem):
    (only,) = found(**spec)
    assert only.startswith("pod w-0: spec.")
    assert problem in only


@pytest.mark.parametrize(
    "spec",
    [
        variable(configMapKeyRef={"name": "settings", "key": "rate"}),
        variable(configMapKeyRef={"name": "settings", "key": "x", "optional": True}),
        variable(secretKeyRef={"name": "no", "key": "x", "optional": True}),
        variable(secretKeyRef={"name": "keys", "key": "user"}),
        variable(fieldRef={"fieldPath": "metadata.labels['a/b']"}),
        variable(resourceFieldRef={"resource": "limits.memory", "divisor": "1024Ki"}),
        everything({"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "no", "optional": True}}),
        volume(configMap={"name": "settings", "items": [{"key": "raw", "path": "x"}]}),
        volume(secret={"secretName": "no", "optional": True}),
        resources(limits={"nvidia.com/gpu": "1k", "cpu": "0.5"}, requests={"cpu": "500m"}),
    ],
)
def test_what_exists_or_is_optional_is_accepted(spec):
    assert found(**spec) == []


@pytest.mark.parametrize(
    ("count", "replicas", "problem"),
    [
        (50, 1, ""),
        (60, 1, "pod w-0: spec.containers[0]: Too long: all arguments and variables together have more than 6291456 b"),
        (50, 60, "Too long: the arguments and variables of all replicas together have more than 268435456 bytes"),
    ],
)
def test_what_a_few_lines_stand_for_has_a_limit(count, replicas, problem):
    container = {"name": "main", "env": [{"name": "A", "value": "x" * 110_000}], "args": ["$(A)y"] * count}
    pods = [
        {"metadata": {"name": f"w-{n}", "namespace": "a"}, "spec": {"containers": [container]}} for n in range(replicas)
    ]
    assert [text[: len(problem)] for text in too_long(([pod], OBJECTS) for pod in pods)] == (
        [problem] if problem else []
    )

"""The CRDs accept what those of training-operator and mpi-operator accept, but for the differences that are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import crd_differences
from support import Refused, UserClient
from support.jobs import KINDS, pod_spec
from support.jobs import job as any_job
from testbed.control_plane import ControlPlane
from testbed.releases import OLDER, minor_version
from trainshed import crd

from .crd_pairs import CrdPairs

NEWER = "MPIJob/v2beta1"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("schemas"), audit=False) as plane:
        yield plane


@pytest.fixture(scope="module")
def both(plane: ControlPlane) -> CrdPairs:
    return CrdPairs(plane.kubeconfig)


@pytest.fixture(scope="module")
def differences() -> list[crd_differences.Difference]:
    return list(crd_differences.differences())


def test_every_difference_of_the_schemas_is_wanted(differences):
    assert crd_differences.unlisted(differences, crd_differences.groups()) == []


def test_every_wanted_difference_exists(differences):
    assert [text for group in crd_differences.groups() for text in group.unused(differences)] == []


def test_every_wanted_difference_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    rows = {word for group in crd_differences.groups() for word in group.why.partition(":")[0].split(", ")}
    assert {row for row in rows if row.startswith("D") and f"| {row} |" not in page} == set()


def a_job(kind: str, path: str, value: object) -> dict:
    """Return a small job with a value at a path: R is its workers, T its pod spec, C its container."""
    name, _, version = kind.partition("/")
    job = any_job(name, "a", **dict.fromkeys((*KINDS[name].least, "Worker"), 1))
    job["apiVersion"] = f"kubeflow.org/{version or 'v1'}"
    role = f"spec.{KINDS[name].field}.Worker"
    begin, _, rest = path.partition(".")
    begin = {"R": role, "T": f"{role}.template.spec", "C": f"{role}.template.spec.containers.0"}.get(begin, begin)
    *parents, last = [*begin.split("."), *(rest.split(".") if rest else ())]
    at: dict = job
    for parent in parents:
        at = at[int(parent)] if isinstance(at, list) else at.setdefault(parent, {})
    at[last] = value
    return job


def cases(*table: tuple) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("kind", "path", "value"), table, ids=lambda part: part if isinstance(part, str) else repr(part)[:60]
    )


@cases(
    *((kind, "spec.runPolicy", {"cleanPodPolicy": ""}) for kind in (*KINDS, NEWER)),
    *((kind, "R.restartPolicy", "") for kind in (*KINDS, NEWER)),
    ("MPIJob", "spec.cleanPodPolicy", ""),
    ("TFJob", "spec.successPolicy", ""),
    ("PyTorchJob", "spec.elasticPolicy.rdzvBackend", ""),
    ("PyTorchJob", "spec.elasticPolicy.rdzvConf", [{"key": "a"}, {"value": "b"}, {}]),
    ("PyTorchJob", "spec.elasticPolicy.rdzvConf", [{"key": "a", "value": "b"}] * 100),
    ("PyTorchJob", "spec.elasticPolicy.metrics", [{"type": "Pods"}] * 100),
    (NEWER, "spec.launcherCreationPolicy", ""),
    (NEWER, "spec.sshAuthMountPath", ""),
    *((NEWER, f"spec.{field}", None) for field in ("slotsPerWorker", "launcherCreationPolicy", "sshAuthMountPath")),
    *((NEWER, f"spec.{field}", None) for field in ("runLauncherAsWorker", "mpiImplementation")),
    ("TFJob", "spec.runPolicy", None),
    *(
        ("TFJob", "spec.runPolicy", {field: None})
        for field in ("suspend", "cleanPodPolicy", "backoffLimit", "managedBy")
    ),
    ("TFJob", "spec.runPolicy.schedulingPolicy", None),
    ("TFJob", "spec.runPolicy.schedulingPolicy", {"queue": None, "minResources": {"cpu": None}}),
    ("TFJob", "spec.runPolicy.schedulingPolicy", {"queue": "", "priorityClass": ""}),
    ("TFJob", "spec.runPolicy.schedulingPolicy.queue", "a" * 300),
    ("TFJob", "spec.runPolicy.schedulingPolicy.minResources", {"cpu": 1, "memory": "1.5Gi", "a": "1e3", "b": "+.5"}),
    ("TFJob", "spec.runPolicy.activeDeadlineSeconds", 10**10),
    ("TFJob", "R.replicas", None),
    ("TFJob", "R.restartPolicy", None),
    ("TFJob", "R.template.metadata", None),
    ("TFJob", "R.template.metadata", {"labels": {"a": None}, "finalizers": None, "creationTimestamp": None}),
    ("TFJob", "T.volumes", None),
    ("TFJob", "T.nodeSelector", {"a": None}),
    ("TFJob", "C.resources", {"limits": {"cpu": None}, "requests": None}),
    ("TFJob", "C.resources", {"limits": {"nvidia.com/gpu": 8, "memory": "0.1Ti"}}),
    ("TFJob", "C.env", [{"name": "a", "value": None}]),
    ("TFJob", "status", None),
)
def test_what_they_accept_is_accepted_and_stored_the_same(both: CrdPairs, kind: str, path: str, value: object):
    theirs, own = (both.stored(side, a_job(kind, path, value))["spec"] for side in ("theirs", "own"))
    assert own == {"runPolicy": {"suspend": False}, **theirs}  # D8


@cases(
    ("TFJob", "spec.runPolicy.schedulingPolicy.minResources", {"memory": "2 GB"}),
    ("TFJob", "spec.runPolicy.schedulingPolicy.minResources", {"cpu": ""}),
    ("TFJob", "spec.runPolicy.schedulingPolicy.minResources", {"cpu": 1.5}),
    ("TFJob", "spec.runPolicy.backoffLimit", 2**31),
    ("TFJob", "spec.runPolicy.backoffLimit", "3"),
    ("TFJob", "spec.runPolicy.suspend", "true"),
    ("TFJob", "R.replicas", 1.5),
    ("TFJob", "T.volumes", [None]),
    ("TFJob", "C.name", None),
    ("TFJob", "C.command", [None]),
    ("TFJob", "C.resources", {"limits": {"memory": "16GB"}}),
    ("TFJob", "T.volumes", [{"name": "a", "emptyDir": {"sizeLimit": "much"}}]),
    ("TFJob", "spec.tfReplicaSpecs", None),
    ("PyTorchJob", "spec.elasticPolicy.metrics", [{"type": "Pods", "pods": {"metric": {"name": "a"}}}]),
    (
        "PyTorchJob",
        "spec.elasticPolicy.metrics",
        [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value", "value": "a lot"}}}],
    ),
    (NEWER, "spec.mpiImplementation", ""),
)
def test_what_they_refuse_is_refused(both: CrdPairs, kind: str, path: str, value: object):
    assert [both.accepts(side, a_job(kind, path, value)) for side in ("theirs", "own")] == [False, False]


@cases(
    ("TFJob", "spec.runPolicy.cleanPodPolicy", "none"),  # D10
    ("PyTorchJob", "spec.elasticPolicy.rdzvBackend", "mine"),  # D10
    ("TFJob", "spec.runPolicy.managedBy", ""),  # D7, D9: their webhook refuses it
    (NEWER, "spec.runPolicy.managedBy", ""),  # D7
    ("TFJob", "spec.runPolicy.backoffLimit", -1),  # D12
    ("TFJob", "R.replicas", -1),  # D12
    ("TFJob", "R.replicas", 100_001),  # D12
    ("PyTorchJob", "spec.elasticPolicy.rdzvPort", 0),  # D12
    (NEWER, "spec.slotsPerWorker", -1),  # D12
    ("TFJob", "metadata.name", "a" * 64),  # D11
    ("TFJob", "spec", None),  # D9
    ("TFJob", "spec.tfReplicaSpecs", {}),  # D9
    ("TFJob", "R.template", None),  # D9: their webhook refuses it
    ("TFJob", "C.image", None),  # D9: their webhook refuses it
    ("TFJob", "T.containers", [{"name": f"c{index}", "image": "a"} for index in range(33)]),  # D77
    ("PyTorchJob", "spec.nprocPerNode", "1" * 17),  # D77
    ("TFJob", "C.imagePullPolicy", "always"),  # D77
)
def test_some_of_what_they_accept_is_refused(both: CrdPairs, kind: str, path: str, value: object):
    assert [both.accepts(side, a_job(kind, path, value)) for side in ("theirs", "own")] == [True, False]


@cases(
    ("TFJob", "C.ports", [{"containerPort": 1}, {"containerPort": 1, "name": "again"}]),  # D64, D77
    ("TFJob", "T.imagePullSecrets", [{"name": "a"}, {"name": "a"}]),  # D77
)
def test_some_of_what_they_refuse_is_accepted(both: CrdPairs, kind: str, path: str, value: object):
    assert [both.accepts(side, a_job(kind, path, value)) for side in ("theirs", "own")] == [False, True]


SELECTOR = {"key": "a", "values": ["b"], "operator": ""}
SPREAD = {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def volume(**source: object) -> list[dict]:
    return [{"name": "a", **source}]


def claim(**fields: object) -> list[dict]:
    return volume(ephemeral={"volumeClaimTemplate": {"spec": CLAIM | fields}})


#: Each enumeration of a pod template, with an empty text.
EMPTY_TEXTS = [
    (
        "T.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        [{"matchExpressions": [SELECTOR]}],
    ),
    ("T.tolerations", [{"key": "a", "value": "b", "operator": ""}]),
    ("T.tolerations", [{"key": "a", "operator": "Exists", "effect": ""}]),
    ("C.livenessProbe", {"httpGet": {"port": 80, "scheme": ""}}),
    ("C.livenessProbe", {"httpGet": {"port": 80, "protocol": ""}}),
    ("C.livenessProbe", {"grpc": {"port": 80, "mode": ""}}),
    ("C.ports", [{"containerPort": 80, "protocol": ""}]),
    ("C.lifecycle", {"stopSignal": ""}),
    *((f"C.{field}", "") for field in ("imagePullPolicy", "terminationMessagePolicy")),
    ("C.securityContext.procMount", ""),
    ("C.volumeMounts", [{"name": "a", "mountPath": "/a", "mountPropagation": ""}]),
    *((f"T.{field}", "") for field in ("dnsPolicy", "restartPolicy", "preemptionPolicy")),
    *((f"T.securityContext.{field}", "") for field in ("fsGroupChangePolicy", "supplementalGroupsPolicy")),
    ("T.securityContext.seccompProfile.type", ""),
    *(("T.topologySpreadConstraints", [SPREAD | {field: ""}]) for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")),
    ("T.topologySpreadConstraints", [SPREAD | {"whenUnsatisfiable": ""}]),
    ("T.volumes", volume(azureDisk={"diskName": "a", "diskURI": "/subscriptions/a", "cachingMode": ""})),
    ("T.volumes", volume(azureDisk={"diskName": "a", "diskURI": "/subscriptions/a", "kind": ""})),
    ("T.volumes", volume(hostPath={"path": "/a", "type": ""})),
    ("T.volumes", volume(image={"reference": "a", "pullPolicy": ""})),
    ("T.volumes", claim(volumeMode="")),
    ("T.volumes", claim(accessModes=[""])),
]


@pytest.mark.skipif(minor_version() in OLDER, reason="the template is that of the newest release")
@pytest.mark.parametrize(("path", "value"), EMPTY_TEXTS, ids=repr)
def test_a_template_has_an_empty_text_where_a_pod_may_have_it(
    plane: ControlPlane, both: CrdPairs, path: str, value: object
):
    job = a_job("TFJob", path, value)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod_spec(job, "Worker")}
    if "mountPropagation" in str(value):
        pod["spec"]["volumes"] = volume(emptyDir={})
    assert both.accepts("own", job) == created(plane, pod)


def created(plane: ControlPlane, pod: dict) -> bool:
    try:
        UserClient(plane.kubeconfig, "default").call("POST", PODS, pod)
    except Refused:
        return False
    return True


def test_no_enumeration_of_the_template_is_left_out():
    tried = {name for path, value in EMPTY_TEXTS for name in (path.rpartition(".")[2], *emptied(value))}
    assert {name for name, _ in enumerations(crd.template_schema(), "")} <= tried


def emptied(value: object, name: str = "") -> Iterator[str]:
    """Yield the names of fields that are the empty text, at any depth."""
    if value == "":
        yield name
    for key, part in value.items() if isinstance(value, dict) else ():
        yield from emptied(part, key)
    for part in value if isinstance(value, list) else ():
        yield from emptied(part, name)


def enumerations(node: dict, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each field of a schema that has an enumeration, with its values."""
    if "enum" in node:
        yield name, node["enum"]
    for key, part in node.get("properties", {}).items():
        yield from enumerations(part, key)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from enumerations(node[key], name)

"""Under v1's names, and under v1's rights: the profile on a real API server, and a Deployment with only a new image."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import FakeKubelet, Operator, UserClient, v1
from support.jobs import job, pytorchjob, tfjob
from support.kubectl import kubectl
from support.planes import ready_control_plane
from support.user_client import Refused, eventually
from testbed.binaries import binary
from testbed.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
PROFILES = {name: str(ROOT / "manifests" / "overlays" / name) for name in ("v1", "kubeflow")}
INJECT, PART_OF = "sidecar.istio.io/inject", "app.kubernetes.io/part-of"
ACCOUNT = "system:serviceaccount:kubeflow:training-operator"
APPS, RBAC = "/apis/apps/v1/namespaces/kubeflow/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kubeflow/leases/trainshed"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with the CRDs for this module."""
    with ready_control_plane(tmp_path / "plane") as plane:
        yield plane


@pytest.fixture
def user(plane: ControlPlane) -> UserClient:
    """A user in v1's namespace, in which v1 is installed."""
    user = UserClient(plane.kubeconfig, "kubeflow")
    user.make_namespace()
    v1.grant(user, ACCOUNT)
    v1.deploy(user)
    return user


def applied(plane: ControlPlane, user: UserClient, *words: str) -> str:
    done = kubectl(plane, user, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(user: UserClient, *jobs: dict) -> None:
    """Jobs of one replica that decides, to their end."""
    with FakeKubelet(user) as kubelet:
        for found in jobs:
            user.create(found)
        for found in jobs:
            kind, name = found["kind"], found["metadata"]["name"]
            eventually(lambda kind=kind, name=name: user.state(kind, name) == "Running", 20)
            replica = "launcher" if kind == "MPIJob" else "worker-0" if kind in ("TFJob", "JAXJob") else "master-0"
            kubelet.end(f"{name}-{replica}", 0)
            eventually(lambda kind=kind, name=name: user.state(kind, name) == "Succeeded", 20)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_v1_profile_differs_only_in_names(tmp_path: Path, profile: str):
    command = [binary("kube", "kubectl"), "kustomize", PROFILES[profile]]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    found = list(yaml.safe_load_all(done.stdout))
    assert {item["metadata"].get("namespace", "kubeflow") for item in found} == {"kubeflow"}
    assert "trainshed-system" not in done.stdout
    assert "Namespace" not in {item["kind"] for item in found}
    names = {item["metadata"]["name"] for item in found}
    people = {f"kubeflow-training-{who}" for who in ("admin", "edit", "view")}
    parts = ("lease", "mpi", "service-accounts", "annotations", "jobs-edit", "jobs-view")
    more = {f"training-operator-{what}" for what in parts}
    assert names == {"training-operator", *more, *people}
    assert {item["metadata"]["labels"].get(PART_OF) for item in found} == {
        "kubeflow" if profile == "kubeflow" else None
    }
    subjects = [subject for item in found for subject in item.get("subjects", ())]
    assert {(subject["name"], subject["namespace"]) for subject in subjects} == {("training-operator", "kubeflow")}


@pytest.mark.parametrize("profile", PROFILES)
def test_v1s_deployment_works_with_our_image_and_then_with_our_rbac(plane, user, operators, profile):
    account = plane.kubeconfig_for(ACCOUNT)
    with pytest.raises(Refused, match="leases"):
        UserClient(account, "kubeflow").call("GET", LEASE)
    operator = operators.begin(account, "--leader-elect=false", "-zap-devel=true", "--controller-threads=2")
    assert "--controller-threads is ignored" in operator.log.read_text()
    train(user, tfjob("tf", Worker=1), pytorchjob("ddp", Master=1, Worker=1), job("JAXJob", "jax", Worker=1))
    _ended(operator)

    assert "secrets" in str(user.call("GET", f"{RBAC}/training-operator")["rules"])
    applied(plane, user, "delete", "deployment", "training-operator")
    applied(plane, user, "apply", "-k", PROFILES[profile])
    defaults = [flag for flag in _has_v1s_names(user) if flag.startswith("--default-")]
    operator = operators.begin(account, "--leader-elect", "--lease-namespace=kubeflow", *defaults)
    train(user, tfjob("tf2", Worker=1), pytorchjob("ddp2", Master=1), job("JAXJob", "jax2", Worker=1))
    train(user, job("MPIJob", "mpi", Launcher=1, Worker=1))
    pods = {pod["metadata"]["annotations"].get(INJECT) for name in ("ddp2", "mpi") for pod in user.pods(name)}
    assert pods == {"false" if profile == "kubeflow" else None}
    _ended(operator)


def _has_v1s_names(user: UserClient) -> list[str]:
    """Check the names; return the flags of the operator."""
    (deployment,) = user.call("GET", APPS)["items"]
    pod = deployment["spec"]["template"]
    assert deployment["metadata"]["name"] == "training-operator"
    assert deployment["spec"]["selector"]["matchLabels"] == v1.LABELS
    assert pod["metadata"]["annotations"][INJECT] == "false"
    assert pod["spec"]["serviceAccountName"] == "training-operator"
    assert {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]} == {8080, 8081}
    (service,) = (item for item in user.core("services") if item["metadata"]["name"] == "training-operator")
    assert service["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [("monitoring-port", 8080)]
    assert "secrets" not in str(user.call("GET", f"{RBAC}/training-operator")["rules"])
    edit = user.call("GET", f"{RBAC}/kubeflow-training-edit")["rules"]
    eventually(lambda: user.call("GET", f"{RBAC}/kubeflow-training-admin")["rules"] == edit)
    return pod["spec"]["containers"][0]["args"]


def _ended(operator: Operator) -> None:
    assert operator.stop() == 0
    assert operator.complaints() == []

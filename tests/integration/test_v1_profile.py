"""Under v1's names, and under v1's rights: the profile on a real API server, and a Deployment with only a new image."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import Hand, Operator, Stage, v1
from support.jobs import job, pytorchjob, tfjob
from support.kubectl import kubectl
from support.planes import ready_control_plane
from support.user_client import Refused, eventually
from testbed.binaries import binary
from testbed.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
PROFILE = str(ROOT / "manifests" / "overlays" / "v1")
ACCOUNT = "system:serviceaccount:kubeflow:training-operator"
APPS, RBAC = "/apis/apps/v1/namespaces/kubeflow/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kubeflow/leases/trainshed"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of its own, with our CRDs."""
    with ready_control_plane(tmp_path / "plane") as plane:
        yield plane


@pytest.fixture
def hand(plane: ControlPlane) -> Hand:
    """A hand in v1's namespace, in which v1 is installed."""
    hand = Hand(plane.kubeconfig, "kubeflow")
    hand.make_namespace()
    v1.grant(hand, ACCOUNT)
    v1.deploy(hand)
    return hand


def applied(plane: ControlPlane, hand: Hand, *words: str) -> str:
    done = kubectl(plane, hand, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(hand: Hand, *jobs: dict) -> None:
    """Jobs of one replica that decides, to their end."""
    with Stage(hand) as stage:
        for found in jobs:
            hand.create(found)
        for found in jobs:
            kind, name = found["kind"], found["metadata"]["name"]
            eventually(lambda kind=kind, name=name: hand.state(kind, name) == "Running", 20)
            seat = "launcher" if kind == "MPIJob" else "worker-0" if kind in ("TFJob", "JAXJob") else "master-0"
            stage.end(f"{name}-{seat}", 0)
            eventually(lambda kind=kind, name=name: hand.state(kind, name) == "Succeeded", 20)


def test_the_profile_is_nothing_but_v1s_names(tmp_path: Path):
    command = [binary("kube", "kubectl"), "kustomize", PROFILE]
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
    subjects = [subject for item in found for subject in item.get("subjects", ())]
    assert {(subject["name"], subject["namespace"]) for subject in subjects} == {("training-operator", "kubeflow")}


def test_a_deployment_of_v1s_works_with_nothing_but_our_image_and_then_under_our_rights(plane, hand, operators):
    account = plane.kubeconfig_for(ACCOUNT)
    with pytest.raises(Refused, match="leases"):
        Hand(account, "kubeflow").call("GET", LEASE)
    operator = operators.begin(account, "--leader-elect=false", "-zap-devel=true", "--controller-threads=2")
    assert "--controller-threads is ignored" in operator.log.read_text()
    train(hand, tfjob("tf", Worker=1), pytorchjob("ddp", Master=1, Worker=1), job("JAXJob", "jax", Worker=1))
    _ended(operator)

    assert "secrets" in str(hand.call("GET", f"{RBAC}/training-operator")["rules"])
    applied(plane, hand, "delete", "deployment", "training-operator")
    applied(plane, hand, "apply", "-k", PROFILE)
    _has_v1s_names(hand)
    operator = operators.begin(account, "--leader-elect", "--lease-namespace=kubeflow")
    train(hand, tfjob("tf2", Worker=1), pytorchjob("ddp2", Master=1), job("JAXJob", "jax2", Worker=1))
    train(hand, job("MPIJob", "mpi", Launcher=1, Worker=1))
    _ended(operator)


def _has_v1s_names(hand: Hand) -> None:
    (deployment,) = hand.call("GET", APPS)["items"]
    pod = deployment["spec"]["template"]
    assert deployment["metadata"]["name"] == "training-operator"
    assert deployment["spec"]["selector"]["matchLabels"] == v1.LABELS
    assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert pod["spec"]["serviceAccountName"] == "training-operator"
    assert {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]} == {8080, 8081}
    (service,) = (item for item in hand.core("services") if item["metadata"]["name"] == "training-operator")
    assert service["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [("monitoring-port", 8080)]
    assert "secrets" not in str(hand.call("GET", f"{RBAC}/training-operator")["rules"])
    edit = hand.call("GET", f"{RBAC}/kubeflow-training-edit")["rules"]
    eventually(lambda: hand.call("GET", f"{RBAC}/kubeflow-training-admin")["rules"] == edit)


def _ended(operator: Operator) -> None:
    assert operator.stop() == 0
    assert operator.complaints() == []

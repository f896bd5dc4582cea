"""`trainshed doctor` on a real API server with a running operator, as users with all, some and no rights."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import FakeKubelet, UserClient
from support.kubectl import kubectl_file
from support.operator import Operator
from support.user_client import eventually
from testbed.control_plane import ControlPlane

BASE = Path(__file__).parents[2] / "manifests" / "base"
FILES = ("namespace", "serviceaccount", "rbac", "annotation-policy", "deployment")
SYSTEM = "trainshed-system"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/trainshed"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def installed(second_server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserClient]:
    """The objects of the manifests with pods that only seem to run, and an operator that holds their Lease."""
    for file in FILES:
        kubectl_file(second_server, "apply", BASE / f"{file}.yaml")
    flags = (f"--namespace={SYSTEM}", "--lease-name=trainshed", f"--lease-namespace={SYSTEM}")
    operator = Operator(second_server.kubeconfig, tmp_path_factory.mktemp("operator"), *flags).start()
    admin = UserClient(second_server.kubeconfig, SYSTEM)
    with FakeKubelet(admin):
        scale(admin, 2)
        yield admin
    operator.stop()
    for file in FILES[1:]:
        kubectl_file(second_server, "delete", BASE / f"{file}.yaml")


def scale(admin: UserClient, replicas: int) -> None:
    admin.call("PATCH", DEPLOYMENT, {"spec": {"replicas": replicas}}, MERGE)
    eventually(lambda: admin.call("GET", DEPLOYMENT)["status"].get("readyReplicas", 0) == replicas, 60)


def doctor(kubeconfig: Path, namespace: str) -> tuple[int, dict[str, list[str]]]:
    """The exit code, and the parts with each verdict, with their sentences."""
    words = (sys.executable, "-m", "trainshed", "doctor", "--kubeconfig", str(kubeconfig), "-n", namespace)
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    assert done.stderr == "", done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        verdict, text = line.split(maxsplit=1)
        found.setdefault(verdict, []).append(re.sub(r" +", " ", text))
    return done.returncode, found


def config_of(plane: ControlPlane, folder: Path, name: str) -> Path:
    """A kubeconfig of the user `name`."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] |= {"as": name, "as-groups": ["system:authenticated"]}
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return folder / "kubeconfig"


@pytest.mark.usefixtures("installed")
def test_an_administrator_sees_that_all_is_well(second_server, second_user):
    code, found = doctor(second_server.kubeconfig, second_user.namespace)
    assert (code, list(found)) == (0, ["OK"]), found
    text = "\n".join(found["OK"])
    for said in (
        "CRDs TFJob, PyTorchJob, XGBoostJob, PaddleJob, JAXJob, MPIJob: as in this version",
        f"Operator Deployment {SYSTEM}/trainshed: 2 of 2 replicas are ready",
        f"holds the Lease {SYSTEM}/trainshed, renewed ",
        "Validation a dry run of a TFJob is accepted, and one with a fault is refused",
        f"Rights you may act on jobs in namespace {second_user.namespace}",
        "Neighbours none of Kueue",
    ):
        assert said in text, text


def test_what_is_wrong_is_said_with_what_to_do(installed, second_server, second_user):
    definition = installed.call("GET", CRD)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["attempts"]
    installed.call("PUT", CRD, definition)
    scale(installed, 0)
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/trainshed-annotations"
    installed.call("DELETE", policy)
    try:
        eventually(lambda: "WARNING" in doctor(second_server.kubeconfig, second_user.namespace)[1], 60)
        code, found = doctor(second_server.kubeconfig, second_user.namespace)
    finally:
        kubectl_file(second_server, "apply", Path(__file__).parents[2] / "crds" / "kubeflow.org_tfjobs.yaml")
        kubectl_file(second_server, "apply", BASE / "annotation-policy.yaml")
        scale(installed, 2)
    assert code == 1
    crds, operator = found["FAILED"]
    assert crds.startswith("CRDs tfjobs.kubeflow.org is older, or of another operator: it lacks 1 field or rule")
    assert "such as .status.attempts; update it with trainshed crds | kubectl apply" in crds
    assert operator.startswith(f"Operator Deployment {SYSTEM}/trainshed: 0 of 0 replicas are ready, so that no job")
    (policy_text,) = found["WARNING"]
    assert "annotationPolicy.enabled" in policy_text


RBAC = "/apis/rbac.authorization.k8s.io/v1"
VIEW = [
    {"apiGroups": ["kubeflow.org"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list", "watch"]},
]


@pytest.mark.parametrize(("rules", "may"), [(VIEW, ["see jobs", "read logs"]), ([], [])], ids=["view", "nothing"])
@pytest.mark.usefixtures("installed")
def test_doctor_reports_no_failure_for_a_user_who_may_not_read(second_server, second_user, tmp_path, rules, may):
    name, path = f"user-of-{second_user.namespace}", f"{RBAC}/namespaces/{second_user.namespace}"
    subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"}
    if rules:
        second_user.call("POST", f"{path}/roles", {"metadata": {"name": "own"}, "rules": rules})
        bound = {"metadata": {"name": "own"}, "roleRef": role, "subjects": [subject]}
        second_user.call("POST", f"{path}/rolebindings", bound)
    code, found = doctor(config_of(second_server, tmp_path, name), second_user.namespace)
    assert (code, "FAILED" in found) == (0, False), found
    parts = {line.partition(" ")[0]: line for line in found["UNKNOWN"]}
    assert list(parts) == ["CRDs", "Operator", "Validation"]
    assert parts["Operator"].endswith("ask for the right to list deployments.apps in the whole cluster")
    assert parts["Validation"].endswith(f"create tfjobs.kubeflow.org in namespace {second_user.namespace}")
    said = [line for line in found["OK"] if line.startswith("Rights")]
    assert [re.sub(r"Rights you may | in namespace .*", "", line) for line in said] == may
    assert len(found["WARNING"]) + len(may) == 4

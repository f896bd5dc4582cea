"""The API server accepts the objects of the chart and of manifests/, and kustomize produces the same as Helm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from charts.overlays import MANIFESTS, RELEASES, WITHOUT_CRDS
from charts.rendering import Document, Release, key
from charts.snapshots import FOLDER
from charts.values import CHART
from support import UserClient
from support.kubectl import kubectl
from support.user_client import MERGE
from testbed.binaries import binary
from testbed.control_plane import ControlPlane

OVERLAYS = sorted(MANIFESTS.glob("overlays/*/values.yaml"))
SNAPSHOTS = sorted(FOLDER.glob("*.values.yaml"))
#: The Prometheus Operator's kinds, which a bare API server does not know.
ELSEWHERE = "monitoring.coreos.com/"
#: The namespace of objects in dry runs.
HOMES = ("trainshed-system", "kubeflow", "team-a", "team-b", "lab")


def kustomized(server: ControlPlane, user: UserClient, folder: Path) -> list[Document]:
    """Return the objects that `kubectl apply -k` would apply."""
    done = kubectl(server, user, "kustomize", str(folder))
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


@pytest.mark.parametrize("values", [None, *OVERLAYS], ids=lambda values: values.parent.name if values else "base")
def test_kustomize_and_helm_render_the_same_objects(server: ControlPlane, user: UserClient, values: Path | None):
    release = RELEASES.get(values.parent.name, Release()) if values else Release()
    wanted = {key(document): document for document in release.documents(values, WITHOUT_CRDS)}
    made = {key(item): item for item in kustomized(server, user, values.parent if values else MANIFESTS)}
    assert {name: item for name, item in made.items() if name[0] != "Namespace"} == wanted


@pytest.mark.parametrize("values", [None, *OVERLAYS, *SNAPSHOTS], ids=lambda values: str(values and values.stem))
def test_the_api_server_accepts_all_objects(server: ControlPlane, user: UserClient, values: Path | None):
    for home in HOMES:
        kubectl(server, user, "create", "namespace", home)
    documents = [
        item for item in Release().documents(values, WITHOUT_CRDS) if not item["apiVersion"].startswith(ELSEWHERE)
    ]
    words = ("--namespace=", "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    done = kubectl(server, user, *words, "-f", "-", text=yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert len(done.stdout.splitlines()) == len(documents)


@pytest.fixture(scope="module")
def restricted(server: ControlPlane) -> UserClient:
    """A user of a namespace that enforces the restricted Pod Security Standard."""
    user = UserClient.somewhere(server.kubeconfig)
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}", labels, MERGE)
    return user


def rendered_pods(values: Path | None) -> list[Document]:
    """Return the pods of the rendered Deployments, without ServiceAccounts: the operator's, and that of the page."""
    deployments = (item for item in Release().documents(values, WITHOUT_CRDS) if item["kind"] == "Deployment")
    specs = [json.loads(json.dumps(item["spec"]["template"]["spec"])) for item in deployments]
    for spec in specs:
        spec.pop("serviceAccountName")
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rendered"}, "spec": spec} for spec in specs]


def refusal(server: ControlPlane, user: UserClient, pod: Document) -> str:
    """Return why the API server refuses a pod, or an empty string."""
    done = kubectl(server, user, "create", "--dry-run=server", "-f", "-", text=yaml.safe_dump(pod))
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("values", [None, *OVERLAYS, *SNAPSHOTS], ids=lambda values: str(values and values.stem))
def test_the_restricted_pod_security_standard_admits_the_operator(
    server: ControlPlane, restricted: UserClient, values: Path | None
):
    assert {refusal(server, restricted, pod) for pod in rendered_pods(values)} == {""}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("securityContext", "runAsNonRoot"), False),
        (("hostNetwork",), True),
        (("volumes",), [{"name": "x", "hostPath": {"path": "/"}}]),
        (("containers", 0, "securityContext"), {"capabilities": {}}),
    ],
)
def test_a_less_secure_pod_is_refused(server: ControlPlane, restricted: UserClient, path: tuple, value: object):
    (pod,) = rendered_pods(None)
    *way, last = path
    target = pod["spec"]
    for step in way:
        target = target[step]
    target[last] = value
    assert "violates PodSecurity" in refusal(server, restricted, pod)


@pytest.mark.parametrize("version", [3, 4])
def test_helm_uninstall_deletes_the_lease_that_its_leader_could_not_release(
    server: ControlPlane, user: UserClient, version: int
):
    def helm(*words: str) -> None:
        command = [binary(f"helm{version}", "helm"), "--kubeconfig", str(server.kubeconfig), "--namespace"]
        done = subprocess.run([*command, user.namespace, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    helm("install", "short", str(CHART), "--set", f"crds.install=false,fullnameOverride=short-{version}")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{user.namespace}/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": f"short-{version}"}}
    user.call("POST", leases, {**lease, "spec": {"holderIdentity": "a-pod-that-is-gone", "leaseDurationSeconds": 15}})
    user.call("POST", leases, {**lease, "metadata": {"name": "another"}})
    helm("uninstall", "short")
    assert [item["metadata"]["name"] for item in user.call("GET", leases)["items"]] == ["another"]

"""The objects that an MPIJob owns on a real API server: kept up to date, effective, and deleted with the job."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from support.fake_kubelet import FakeKubelet
from support.jobs import job, tfjob
from support.kubectl import kubectl
from support.pods import names
from support.user_client import MERGE, Refused, UserClient, always, eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator", "kubelet")

MANIFESTS = Path(__file__).parents[2] / "manifests"
MPI, CORE, RBAC = "MPIJob", "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
#: Everything that a job `m` owns besides its pods.
OWNED = {
    "serviceaccounts": (CORE, "m-launcher"),
    "configmaps": (CORE, "m-config"),
    "roles": (RBAC, "m-launcher"),
    "rolebindings": (RBAC, "m-launcher"),
}
LASTING = tuple(plural for plural in OWNED if plural != "serviceaccounts")


def path(user: UserClient, plural: str, name: str = "") -> str:
    """Return the path of a kind, or of an object."""
    group, own = OWNED[plural]
    return f"{group}/namespaces/{user.namespace}/{plural}/{name or own}"


def found(user: UserClient, plural: str) -> dict | None:
    """The job's own object of a kind."""
    group, own = OWNED[plural]
    listed = user.call("GET", f"{group}/namespaces/{user.namespace}/{plural}")["items"]
    return next((item for item in listed if item["metadata"]["name"] == own), None)


def content(item: dict | None) -> dict:
    """Return an object without the fields that the API server sets."""
    kept = {key: value for key, value in (item or {}).items() if key != "metadata"}
    return kept | {"labels": (item or {}).get("metadata", {}).get("labels")}


def versions(user: UserClient) -> dict[str, str]:
    """The version of everything that the job owns."""
    return {
        plural: (found(user, plural) or {"metadata": {"resourceVersion": ""}})["metadata"]["resourceVersion"]
        for plural in OWNED
    }


@pytest.fixture
def running(user: UserClient) -> UserClient:
    """A user in a namespace where an MPIJob `m` of two workers runs."""
    user.create(job(MPI, "m", restart="OnFailure", Launcher=1, Worker=2))
    eventually(lambda: user.state(MPI, "m") == "Running")
    eventually(lambda: "m-worker-1" in (found(user, "configmaps") or {})["data"]["discover_hosts.sh"])
    return user


#: What others write into the objects, by their kind.
PATCHES = [
    ("configmaps", {"data": {"hostfile": "elsewhere slots=1\n"}}),
    ("configmaps", {"data": {"kubexec.sh": None, "more.sh": "rm -rf /"}}),
    ("configmaps", {"metadata": {"labels": {"app": "another"}}}),
    ("roles", {"rules": []}),
    ("roles", {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]}),
    ("rolebindings", {"subjects": []}),
]


def test_changes_by_others_are_reverted_and_deleted_objects_are_created_again(running: UserClient):
    before = {plural: content(found(running, plural)) for plural in LASTING}
    for plural, patch in PATCHES:
        assert content(running.call("PATCH", path(running, plural), patch, MERGE)) != before[plural]
        eventually(lambda plural=plural: content(found(running, plural)) == before[plural])
    for plural in LASTING:
        running.call("DELETE", path(running, plural))
        eventually(lambda plural=plural: content(found(running, plural)) == before[plural])


def test_unchanged_objects_are_not_written(running: UserClient):
    before = versions(running)
    for number in range(3):
        running.patch_job(MPI, "m", {"metadata": {"labels": {"reconcile": str(number)}}})
    always(lambda: versions(running) == before)


def test_the_launcher_may_see_and_enter_only_its_own_workers(server: ControlPlane, running: UserClient):
    running.create(job(MPI, "other", Launcher=1, Worker=1))
    eventually(lambda: running.pod("other-worker-0"))
    assert _may(running, "create", "pods", "m-worker-1", "exec")
    launcher = f"--as=system:serviceaccount:{running.namespace}:m-launcher"
    for pod, may in (("m-worker-1", True), ("other-worker-0", False)):
        waited = kubectl(server, running, launcher, "wait", "--for=condition=Ready", "--timeout=30s", f"pod/{pod}")
        assert (waited.returncode == 0, "orbidden" in waited.stderr) == (may, not may)
    assert not _may(running, "create", "pods", "other-worker-0", "exec")
    assert not _may(running, "list", "pods", "")
    assert not _may(running, "create", "pods", "m-launcher", "exec")
    assert not _may(running, "create", "pods", "", "exec")
    assert not _may(running, "delete", "pods", "m-worker-1")
    assert not _may(running, "get", "secrets", "any")


def test_the_operator_may_grant_only_these_rights(server: ControlPlane, running: UserClient, user: UserClient):
    with suppress(Refused):  # another test may have made it
        UserClient(server.kubeconfig, "trainshed-system").make_namespace()
    granted = kubectl(server, running, "--namespace=", "apply", "-f", str(MANIFESTS / "base" / "rbac.yaml"))
    assert granted.returncode == 0, granted.stderr
    copies = [_copy(running, plural) for plural in OWNED]
    assert _as_operator(server, running, copies) == ""
    role = copies[2] | {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    role["metadata"] = {"name": "too-much"}
    assert "attempting to grant RBAC permissions not currently held" in _as_operator(server, running, [role])


def test_the_role_stays_while_the_job_is_suspended_and_when_it_is_finished(running: UserClient, kubelet: FakeKubelet):
    running.patch_job(MPI, "m", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: running.state(MPI, "m") == "Suspended" and not running.pods())
    assert all(found(running, plural) for plural in OWNED)
    running.patch_job(MPI, "m", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: running.state(MPI, "m") == "Running")
    kubelet.end("m-launcher", 0)
    eventually(lambda: running.state(MPI, "m") == "Succeeded")
    running.call("DELETE", path(running, "roles"))
    always(lambda: found(running, "roles") is None)
    assert all(found(running, plural) for plural in OWNED if plural != "roles")


def test_the_role_is_deleted_with_the_job_and_a_recreated_job_has_its_own(running: UserClient):
    before = {plural: found(running, plural)["metadata"]["uid"] for plural in OWNED}
    running.delete_job(MPI, "m")
    running.create(job(MPI, "m", Launcher=1, Worker=1))
    eventually(lambda: running.state(MPI, "m") == "Running", 30)
    uid = running.job(MPI, "m")["metadata"]["uid"]
    for plural in OWNED:
        item = found(running, plural)
        assert item["metadata"]["uid"] != before[plural]
        assert [owner["uid"] for owner in item["metadata"]["ownerReferences"]] == [uid]
    assert found(running, "configmaps")["data"]["hostfile"] == "m-worker-0 slots=1\n"
    running.delete_job(MPI, "m")
    eventually(lambda: not any(found(running, plural) for plural in OWNED), 30)


def test_two_jobs_may_share_a_missing_service_account(user: UserClient):
    for name in ("first", "second"):
        wanted = job(MPI, name, Launcher=1, Worker=1)
        wanted["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "own"
        user.create(wanted)
    eventually(lambda: user.state(MPI, "first") == user.state(MPI, "second") == "Running")
    assert "own" in names(user.core("serviceaccounts"))


@pytest.mark.fault("J8")
def test_a_foreign_service_account_of_that_name_gets_no_rights(user: UserClient):
    user.make("serviceaccounts", {"metadata": {"name": "m-launcher"}})
    user.create(job(MPI, "m", Launcher=1, Worker=1))
    blocked = eventually(lambda: user.conditions(MPI, "m").get("Blocked"))
    assert blocked["message"].startswith("serviceaccount m-launcher already exists and is not controlled by this job;")
    always(lambda: user.pods() == [], 1)
    user.delete("serviceaccounts", "m-launcher")
    eventually(lambda: user.state(MPI, "m") == "Running", 30)
    (owner,) = found(user, "serviceaccounts")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == (MPI, "m")


@pytest.mark.fault("J8")
def test_a_worker_whose_name_a_pod_of_another_job_has_is_never_entered(user: UserClient):
    user.create(tfjob("m", Worker=1))
    eventually(lambda: user.state("TFJob", "m") == "Running")
    user.create(job(MPI, "m", Launcher=1, Worker=2))
    eventually(lambda: user.conditions(MPI, "m").get("Blocked", {}).get("reason") == "NameConflict")
    assert found(user, "rolebindings")
    assert not _may(user, "create", "pods", "m-worker-0", "exec")
    user.delete_job("TFJob", "m")
    eventually(lambda: user.state(MPI, "m") == "Running", 60)
    eventually(lambda: _may(user, "create", "pods", "m-worker-0", "exec"))


@pytest.mark.fault("J8")
def test_the_pod_of_another_job_is_not_entered_when_the_workers_are_gone(running: UserClient, kubelet: FakeKubelet):
    running.patch_job(MPI, "m", {"spec": {"runPolicy": {"cleanPodPolicy": "All"}}})
    kubelet.end("m-launcher", 0)
    eventually(lambda: running.state(MPI, "m") == "Succeeded" and not running.pods())
    running.create(tfjob("m", Worker=1))
    eventually(lambda: running.state("TFJob", "m") == "Running")
    eventually(lambda: not _may(running, "create", "pods", "m-worker-0", "exec"), 2)


@pytest.mark.fault("J8")
@pytest.mark.parametrize("how", ["a finalizer of others", "orphans", "an invalid annotation"])
def test_a_job_for_which_nothing_is_done_any_more_enters_no_pod_of_another_job(user: UserClient, how: str):
    wanted = job(MPI, "m", Launcher=1, Worker=1)
    if how == "a finalizer of others":
        wanted["metadata"]["finalizers"] = ["example.com/keep"]
    user.create(wanted)
    eventually(lambda: user.state(MPI, "m") == "Running" and _may(user, "create", "pods", "m-worker-0", "exec"))
    if how == "an invalid annotation":
        user.patch_job(MPI, "m", {"metadata": {"annotations": {"trainshed.dev/restart-scope": "none"}}})
    else:
        user.call("DELETE", user.path(MPI, "m"), {"propagationPolicy": "Orphan" if how == "orphans" else "Background"})
    user.delete("pods", "m-worker-0", 0)
    eventually(lambda: not _may(user, "create", "pods", "m-worker-0", "exec"), 10)
    user.create(tfjob("m", Worker=1))
    eventually(lambda: user.state("TFJob", "m") == "Running")
    always(lambda: not _may(user, "create", "pods", "m-worker-0", "exec"), 1)
    if how == "a finalizer of others":
        user.patch_job(MPI, "m", {"metadata": {"finalizers": None}})


@pytest.mark.fault("J8")
def test_a_pod_of_another_namespace_is_no_worker_whatever_owner_it_names(server: ControlPlane, user: UserClient):
    user.create(tfjob("m", Worker=1))
    eventually(lambda: user.state("TFJob", "m") == "Running")
    user.create(job(MPI, "m", Launcher=1, Worker=1))
    eventually(lambda: user.conditions(MPI, "m").get("Blocked"))
    before, foreigner = names(user.pods()), UserClient.somewhere(server.kubeconfig, named="foreign")
    for kind in ("TFJob", MPI):
        found = user.job(kind, "m")
        owner = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "m", "uid": found["metadata"]["uid"]}
        labels = {"training.kubeflow.org/job-name": "m", "training.kubeflow.org/replica-type": "worker"}
        metadata = {
            "labels": {**labels, "training.kubeflow.org/replica-index": "0"},
            "finalizers": ["example.com/keep"],
        }
        metadata |= {"name": "m-worker-0", "ownerReferences": [{**owner, "controller": True}]}
        metadata["annotations"] = {"trainshed.dev/restart-attempt": "9000"}
        pod = {"metadata": metadata, "spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}
        foreigner.make("pods", pod)
        always(lambda: user.state("TFJob", "m") == "Running" and names(user.pods()) == before, 2)
        assert not _may(user, "create", "pods", "m-worker-0", "exec")
        release = f"/api/v1/namespaces/{foreigner.namespace}/pods/m-worker-0"
        foreigner.call("PATCH", release, {"metadata": {"finalizers": None}}, MERGE)
        eventually(lambda: foreigner.pods() == [])


@pytest.mark.fault("J8")
def test_an_account_that_other_pods_use_gets_no_right_and_the_job_says_so(user: UserClient):
    wanted = job(MPI, "m", Launcher=1, Worker=1)
    wanted["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "default"
    user.create(wanted)
    eventually(lambda: user.state(MPI, "m") == "Running")
    assert found(user, "rolebindings") is None
    assert not _account_may("default", user, "create", "pods", "m-worker-0", "exec")
    (said,) = eventually(lambda: [text for _, reason, text in user.events("m") if reason == "ServiceAccountNotBound"])
    assert "bind the Role m-launcher to it" in said


def test_a_launcher_without_workers_runs_at_once_without_exec_rights(user: UserClient):
    user.create(job(MPI, "m", Launcher=1))
    eventually(lambda: user.state(MPI, "m") == "Running")
    assert names(user.pods()) == ["m-launcher"]
    assert [rule["resources"] for rule in found(user, "roles")["rules"]] == [["configmaps"]]
    assert not _may(user, "create", "pods", "m-worker-0", "exec")


def test_the_job_continues_once_a_foreign_object_is_deleted(user: UserClient):
    user.make("configmaps", {"metadata": {"name": "m-config"}, "data": {"theirs": "x"}})
    user.create(job(MPI, "m", Launcher=1, Worker=1))
    eventually(lambda: user.state(MPI, "m") == "Blocked")
    assert user.pods() == []
    user.delete("configmaps", "m-config")
    eventually(lambda: user.state(MPI, "m") == "Running", 30)
    assert "Blocked" not in user.conditions(MPI, "m")


def _may(user: UserClient, verb: str, resource: str, name: str, subresource: str = "") -> bool:
    """Return whether the launcher's own account has a right."""
    return _account_may("m-launcher", user, verb, resource, name, subresource)


def _account_may(account: str, user: UserClient, *right: str) -> bool:
    asked = dict(zip(("verb", "resource", "name", "subresource"), right, strict=False), namespace=user.namespace)
    review = {"spec": {"user": f"system:serviceaccount:{user.namespace}:{account}", "resourceAttributes": asked}}
    return user.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]


def _copy(user: UserClient, plural: str) -> dict:
    """The job's own object under another name."""
    item = user.call("GET", path(user, plural))
    return item | {"metadata": {"name": "copy"}}


def _as_operator(server: ControlPlane, user: UserClient, objects: list[dict]) -> str:
    """Create objects with the operator's rights in a cluster; return the refusals."""
    text = yaml.safe_dump_all(objects)
    account = "--as=system:serviceaccount:trainshed-system:trainshed"
    return kubectl(server, user, account, "create", "-f", "-", text=text).stderr

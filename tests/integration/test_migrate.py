"""The migration from training-operator v1 on a real API server: the report of `migrate`, and no restarted pod."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support import FakeKubelet, UserClient, v1
from support.jobs import pytorchjob, tfjob
from support.user_client import eventually
from support.v1_jobs import ALL, DECIDES, V1_JOBS, conditions_of, create_v1_jobs
from testbed.binaries import binary
from testbed.control_plane import ControlPlane
from trainshed.cli import cli

CRDS = Path(__file__).parents[2] / "crds"
WEBHOOK = "validator.training-operator.kubeflow.org"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with v1's CRDs and v1's Deployment."""
    with ControlPlane(tmp_path / "plane", controllers=True) as plane:
        user = UserClient(plane.kubeconfig, "kubeflow")
        user.make_namespace()
        v1.install(user)
        v1.bind(user, "training-operator", "training-operator")
        v1.deploy(user, "--gang-scheduler-name=", "--webhook-server-port=9443", "-zap-log-level=2")
        eventually(lambda: all(user.serves(user.path(found["kind"], "")) for found, _ in V1_JOBS.values()))
        yield plane


@pytest.fixture
def user(plane: ControlPlane) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(plane.kubeconfig)


def kubectl(plane: ControlPlane, *words: object) -> str:
    command = [str(binary("kube", "kubectl")), "--kubeconfig", str(plane.kubeconfig), *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def migrate(kubeconfig: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["migrate", "--dry-run", "--kubeconfig", str(kubeconfig), *words])


def line(result: Result, words: str) -> str:
    """The one line of the output that has these words."""
    (found,) = [line.strip() for line in result.stdout.splitlines() if words in line]
    return found


def uids(user: UserClient) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}


def only_reads(plane: ControlPlane, user: UserClient) -> Path:
    """The kubeconfig of a user who may get and list, and nothing else."""
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    user.call("POST", f"{ROLES}/clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]
    body = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": subjects}
    user.call("POST", f"{ROLES}/clusterrolebindings", body)
    return plane.kubeconfig_for("reader")


def switch(plane: ControlPlane) -> None:
    """The commands of docs/switching.md up to the start of the operator."""
    kubectl(plane, "--namespace", "kubeflow", "scale", "deployment/training-operator", "--replicas=0")
    kubectl(plane, "delete", "validatingwebhookconfiguration", WEBHOOK)
    kubectl(plane, "replace", "-f", CRDS)


@pytest.mark.fault("G5")
def test_running_jobs_are_taken_over_without_a_restarted_pod(plane, user, operators):
    with FakeKubelet(user) as kubelet:
        create_v1_jobs(user, kubelet)
        v1.guard(user)
        before = migrate(only_reads(plane, user))
        assert before.exit_code == 0, before.output
        assert "action required training-operator v1 is running: Deployment kubeflow/training-operator" in before.stdout
        assert "as soon as v1 is stopped, every create and update of a job fails" in before.stdout
        assert "CRD tfjobs.kubeflow.org is v1's" in before.stdout
        assert "--webhook-server-port is ignored" in before.stdout
        for name in V1_JOBS:
            severity = "will change" if name in ("again", "mpi", "elastic") else "unchanged"
            assert line(before, f"/{name} (").startswith(severity), before.stdout
        assert "pod again-worker-1 created" in line(before, "/again (")

        known, states = uids(user), {name: conditions_of(user, name) for name in V1_JOBS}
        switch(plane)
        operator = operators.begin(plane.kubeconfig, "--no-leader-elect")
        eventually(lambda: conditions_of(user, "again") == ["Created", "Running"], 20)
        reconciled = [name for name in V1_JOBS if name not in ("paused", "done", "lost")]
        eventually(lambda: all(user.job(V1_JOBS[name][0]["kind"], name)["status"].get("ready") for name in reconciled))
        after = uids(user)
        assert after.pop("again-worker-1")
        assert after == known
        assert {name: conditions_of(user, name) for name in V1_JOBS} == states | {"again": ["Created", "Running"]}
        eventually(lambda: f"\n{len(V1_JOBS)} jobs (unchanged: {len(V1_JOBS)})" in migrate(plane.kubeconfig).stdout, 20)
        (config,) = (item for item in user.core("configmaps") if item["metadata"]["name"] == "mpi-config")
        assert "echo mpi-worker-0:1" in config["data"]["discover_hosts.sh"]

        _play(user, kubelet)
        assert {name: uid for name, uid in uids(user).items() if name in known} == known
        assert conditions_of(user, "done") == states["done"]
        assert conditions_of(user, "lost") == states["lost"]
        assert user.call("GET", v1.scalers(user))["items"] == []
        _fail_and_succeed(user, kubelet, known)
        assert operator.stop() == 0
        assert operator.complaints() == []


def _play(user: UserClient, kubelet: FakeKubelet) -> None:
    """Every job to its end."""
    user.patch_job("TFJob", "paused", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: conditions_of(user, "paused") == ["Created", "-Suspended", "Running"])
    for name, replica in DECIDES.items():
        kubelet.end(f"{name}-{replica}", 0)
    for name, replicas in ALL.items():
        for replica in replicas:
            kubelet.end(f"{name}-{replica}", 0)
    for name in (*DECIDES, *ALL):
        eventually(lambda name=name: conditions_of(user, name)[-1] == "Succeeded")
        status = user.job(V1_JOBS[name][0]["kind"], name)["status"]
        assert status["completionTime"] >= status["startTime"]
        assert (status["startTime"] == v1.SINCE) is (name != "paused")
        assert "restarts" not in status or status["restarts"] == 0


def _fail_and_succeed(user: UserClient, kubelet: FakeKubelet, known: dict[str, str]) -> None:
    """A failure after the switch is retried: the pods of v1 are deleted, and the operator creates new ones."""
    kubelet.end("fails-worker-0", 137)
    own = ("fails-master-0", "fails-worker-0")
    eventually(lambda: all(uids(user).get(name) not in (None, known[name]) for name in own), 20)
    eventually(lambda: conditions_of(user, "fails") == ["Created", "Running"], 20)
    assert user.job("PyTorchJob", "fails")["status"]["restarts"] == 1
    kubelet.end("fails-master-0", 0)
    eventually(lambda: conditions_of(user, "fails")[-1] == "Succeeded")


def test_jobs_that_would_fail_need_attention(plane, user):
    with FakeKubelet(user) as kubelet:
        bad = tfjob("bad", policy={"cleanPodPolicy": "Foo"}, Worker=1)
        v1.create_job(user, bad, "Created", "Running")
        v1.create_job(user, pytorchjob("hurt", restart="ExitCode", Master=1, Worker=1), "Created", "Running")
        v1.create_job(user, tfjob("late", policy={"activeDeadlineSeconds": 60}, Worker=1), "Created", "Running")
        v1.create_job(
            user, tfjob("kept", policy={"ttlSecondsAfterFinished": 60}, Worker=1), "Succeeded", completed=True
        )
        eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in user.pods()))
        kubelet.end("hurt-worker-0", 137)
        result = migrate(plane.kubeconfig, "--namespace", user.namespace)
    assert result.exit_code == 1
    assert line(result, "/bad (").startswith("needs attention")
    assert "spec.runPolicy.cleanPodPolicy" in line(result, "/bad (")
    assert "neither restarted nor cleaned up" in line(result, "/bad (")
    assert line(result, "/hurt (").startswith("needs attention")
    assert "pods hurt-master-0, hurt-worker-0 deleted" in line(result, "/hurt (")
    assert line(result, "/late (").startswith("needs attention")
    assert "active longer than specified deadline" in line(result, "/late (")
    assert "job deleted: ttlSecondsAfterFinished has passed" in line(result, "/kept (")
    assert f"4 jobs in namespace {user.namespace} (will change: 1, needs attention: 3)" in result.stdout


def test_two_operators_a_webhook_without_a_server_and_v1s_crds_are_errors(plane, user):
    own = {"name": "operator", "image": "ghcr.io/trainshed/trainshed:1"}
    labels = {"app": "own"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [own]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "trainshed"}, "spec": spec}
    v1.bind(user, "trainshed", "default")
    user.call("POST", f"/apis/apps/v1/namespaces/{user.namespace}/deployments", body)
    eventually(lambda: "two operators undo each other's work" in migrate(plane.kubeconfig).stdout)
    result = migrate(plane.kubeconfig)
    assert result.exit_code == 1
    assert line(result, "CRD tfjobs.kubeflow.org").startswith("error")
    v1.guard(user)
    kubectl(plane, "--namespace", "kubeflow", "scale", "deployment/training-operator", "--replicas=0")
    eventually(lambda: "but v1 is not running" in migrate(plane.kubeconfig).stdout)
    assert line(migrate(plane.kubeconfig), f"configuration {WEBHOOK} exists").startswith("error")
    kubectl(plane, "delete", "validatingwebhookconfiguration", WEBHOOK)
    kubectl(plane, "replace", "-f", CRDS)
    result = migrate(plane.kubeconfig)
    assert line(result, "none of them ready").startswith("error"), "nothing runs its pods here"
    assert "cluster (error: 1, action required: 0)" in result.stdout

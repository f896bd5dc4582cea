"""Why a pod was deleted, from what an operator has recorded that was killed in between, on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

from support import FakeKubelet, UserClient
from support.jobs import pytorchjob
from support.people import READS, person
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from trainshed.decisions import ring

ASKS = {"trainshed.dev/record": "Decisions"}
FLAGS = ("--no-leader-elect", "--record-decisions=Annotated")
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}


def kept(user: UserClient) -> list[dict]:
    """The ConfigMaps of recorded decisions."""
    return [found for found in user.core("configmaps") if ring.LABEL in found["metadata"].get("labels", {})]


def test_a_deleted_pod_is_explained_after_the_operator_was_killed(
    second_server: ControlPlane, second_user: UserClient, operators, tmp_path: Path
):
    user = second_user
    reader = person(second_server, user, tmp_path, [*READS, CONFIG_MAPS])
    flags = (*FLAGS, f"--namespace={user.namespace}")
    operator = operators.begin(second_server.kubeconfig, *flags)
    with FakeKubelet(user) as kubelet:
        for name in ("asks", "plain"):
            job = pytorchjob(name, restart="ExitCode", Master=1, Worker=1)
            user.create(job | {"metadata": {"name": name, "annotations": ASKS if name == "asks" else {}}})
        eventually(lambda: user.state("PyTorchJob", "asks") == user.state("PyTorchJob", "plain") == "Running", 60)
        eventually(lambda: kept(user), 90)
        operator.kill()
        operators.begin(second_server.kubeconfig, *flags)
        old = {pod["metadata"]["uid"] for pod in user.pods()}
        for name in ("asks", "plain"):
            kubelet.end(f"{name}-worker-0", 137)
        eventually(lambda: len({pod["metadata"]["uid"] for pod in user.pods()} - old) >= 2, 60)
        for name in ("asks", "plain"):
            eventually(lambda name=name: user.state("PyTorchJob", name) == "Running", 60)
            kubelet.end(f"{name}-master-0", 0)
        eventually(lambda: user.state("PyTorchJob", "asks") == "Succeeded", 60)
        eventually(lambda: "Succeeded is True" in reader.says("replay", "asks"), 60)
    (config_map,) = kept(user)
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == user.job("PyTorchJob", "asks")["metadata"]["uid"]

    said = reader.says("replay", "asks", "--pod", "asks-worker-0")
    assert "asks-worker-0 at " in said.splitlines()[-1]
    assert "by the rule restart" in said.splitlines()[-1]
    story = reader.says("replay", "pytorchjob/asks")
    assert "the operator started again: decisions of the last half minute before may be missing" in story
    assert "decided otherwise: 0" in reader.says("replay", "asks", "--with-this-version")
    steps = json.loads(reader.says("replay", "asks", "-o", "json"))["steps"]
    assert [step["n"] for step in steps] == list(range(1, len(steps) + 1))

    for words, problem in (
        (("plain",), "no decisions about pytorchjob/plain are recorded: the job has no annotation"),
        (("nope",), "the decisions about a job go with it"),
    ):
        refused = reader.run("replay", *words)
        assert (refused.returncode, problem in refused.stderr) == (1, True), refused.stderr
    others = tmp_path / "others"
    others.mkdir()
    user.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{user.namespace}/roles/reader")
    user.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{user.namespace}/rolebindings/reader")
    refused = person(second_server, user, others, READS).run("replay", "asks")
    assert refused.returncode == 1
    assert "Ask for the right to get configmaps" in refused.stderr

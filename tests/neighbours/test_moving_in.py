"""From the real training-operator v1 to Trainshed by the commands of the pages, with no pod of a job restarted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.commands import ROOT
from support import FakeKubelet, UserClient, v1
from support.background import in_background
from support.operator import Operators
from support.tcp_proxy import ServiceProxy
from support.user_client import Refused, eventually
from support.v1_jobs import ALL, DECIDES, ENDED, V1_JOBS, conditions_of
from testbed.binaries import binary
from testbed.control_plane import ControlPlane

from .training_operator import PATIENCE, TrainingOperator

#: The names of Open Data Hub: that of the service account in OpenShift AI is too long for a certificate here.
OPENSHIFT = ("opendatahub", "kubeflow-training-operator")
STEPS = ("2. Stop v1", "3. Remove v1's webhook", "4. Replace v1's CRDs", "5. Start Trainshed")
#: Each way of docs/switching.md, some by the title of a section: v1's overlay with the names that it has there, and the
#: operator that follows it.
WAYS = {
    "own names": ("standalone", None, ("trainshed-system", "trainshed")),
    "v1's names": ("standalone", None, ("kubeflow", "training-operator")),
    "From the Kubeflow distribution": ("kubeflow", None, ("kubeflow", "training-operator")),
    "From OpenShift AI": ("standalone", OPENSHIFT, ("trainshed-system", "trainshed")),
}
#: A command that kubectl has not, and a cluster without OpenShift does not need.
ONLY_OPENSHIFT = "oc adm "
#: A job that fails under Trainshed only, and one that v1 restarts are in other tests.
LEFT_OUT = ("again",)
pytestmark = pytest.mark.long
JOBS = {name: body for name, (body, _) in V1_JOBS.items() if name not in LEFT_OUT}
RUNNING = [name for name in JOBS if name not in ("paused", "done", "lost")]


def blocks(title: str) -> list[list[str]]:
    """The commands of each block of a section that is not in a language."""
    section = re.split(r"^## ", (ROOT / "docs" / "switching.md").read_text(), flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(title + "\n"))
    return [body.split("\n")[:-1] for body in re.findall(r"^ *```\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)]


def commands(way: str) -> list[str]:
    """What the page tells to type, in order."""
    if way == "From OpenShift AI":
        found = [line for block in blocks(way) for line in block]
    else:
        found = [line for step in STEPS[:-1] for block in blocks(step) for line in block]
        own, v1s = blocks(STEPS[-1])
        found += own if way == "own names" else v1s if way == "v1's names" else blocks(way)[0]
    return [line.strip() for line in found if not line.strip().startswith(ONLY_OPENSHIFT)]


class Administrator:
    """Types commands in the folder of a release; `oc` is kubectl."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        kubectl = f'exec "{binary("kube", "kubectl")}" --kubeconfig "{plane.kubeconfig}" "$@"\n'
        own = f'exec "{sys.executable}" -m trainshed "$@" --kubeconfig "{plane.kubeconfig}"\n'
        folder.mkdir()
        for name, text in {"kubectl": kubectl, "oc": kubectl, "trainshed": own}.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}")
            (folder / name).chmod(0o755)
        self._path = f"{folder}{os.pathsep}{os.environ['PATH']}"

    def types(self, command: str, codes: tuple[int, ...] = (0,)) -> str:
        """What a command prints; it must end with one of these codes."""
        words = ["bash", "-o", "pipefail", "-c", command]
        environment = os.environ | {"PATH": self._path}
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode in codes, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def services(tmp_path: Path) -> Iterator[ServiceProxy]:
    with in_background(ServiceProxy(tmp_path)) as services:
        yield services


@pytest.fixture
def plane(tmp_path: Path, services: ServiceProxy) -> Iterator[ControlPlane]:
    """A control plane with nothing of anyone."""
    plane = ControlPlane(tmp_path / "plane", controllers=True)
    plane.extra_flags = (services.flag,)
    with plane:
        yield plane


def uids(user: UserClient) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}


def begin(user: UserClient, kubelet: FakeKubelet) -> None:
    """Let v1 run the jobs as far as they are to run under it."""
    for body in JOBS.values():
        user.create(body)
    wanted = dict.fromkeys(RUNNING, "Running") | {"paused": "Suspended"}
    eventually(lambda: all(conditions_of(user, name)[-1:] == [state] for name, state in wanted.items()), PATIENCE)
    for pod, code in ENDED.items():
        eventually(lambda pod=pod: pod in uids(user), PATIENCE)
        kubelet.end(pod, code)
    for name, state in (("done", "Succeeded"), ("lost", "Failed")):
        eventually(lambda name=name, state=state: conditions_of(user, name)[-1] == state, PATIENCE)


def finish(user: UserClient, kubelet: FakeKubelet) -> None:
    """Let all of them succeed."""
    user.patch_job("TFJob", "paused", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: conditions_of(user, "paused")[-1] == "Running", PATIENCE)
    ends = {name: (replica,) for name, replica in DECIDES.items()} | ALL | {"fails": ("master-0",)}
    for name in (*RUNNING, "paused"):
        for replica in ends[name]:
            kubelet.end(f"{name}-{replica}", 0)
    for name in (*RUNNING, "paused"):
        eventually(lambda name=name: conditions_of(user, name)[-1] == "Succeeded", PATIENCE)


def remove_component(admin: UserClient, old: TrainingOperator) -> None:
    """What the operator of OpenShift AI does once the component is `Removed`: its Deployment goes, the CRDs stay."""
    spec = admin.call("GET", f"{CLUSTERS}/default-dsc")["spec"]
    assert spec["components"]["trainingoperator"]["managementState"] == "Removed"
    admin.call("DELETE", f"/apis/apps/v1/namespaces/{old.namespace}/deployments/{old.name}")


GROUP, KIND = "datasciencecluster.opendatahub.io", "DataScienceCluster"
CLUSTERS = f"/apis/{GROUP}/v1/datascienceclusters"


def install_openshift_ai(admin: UserClient) -> None:
    """The resource by which OpenShift AI has the component: its definition, as far as the page uses it, and one."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": KIND, "plural": "datascienceclusters", "singular": "datasciencecluster"}
    body = {"metadata": {"name": f"datascienceclusters.{GROUP}"}}
    body["spec"] = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
    admin.call("POST", v1.CRD, body)
    managed = {"components": {"trainingoperator": {"managementState": "Managed"}}}
    one = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "default-dsc"}, "spec": managed}

    def created() -> bool:
        try:
            admin.call("POST", CLUSTERS, one)
        except Refused:  # not served yet
            return False
        return True

    eventually(created, PATIENCE)


@pytest.mark.parametrize("way", WAYS)
def test_jobs_of_the_real_v1_go_on_under_trainshed(
    plane: ControlPlane, services: ServiceProxy, operators: Operators, tmp_path: Path, way: str
):
    overlay, named, (namespace, name) = WAYS[way]
    admin, administrator = UserClient(plane.kubeconfig, "default"), Administrator(plane, tmp_path / "bin")
    if named:
        install_openshift_ai(admin)
    typed = commands(way)
    with TrainingOperator.installed(plane, services, tmp_path / "v1", overlay, named) as old:
        user = UserClient.somewhere(plane.kubeconfig)
        with FakeKubelet(user) as kubelet:
            begin(user, kubelet)
            known, states = uids(user), {name: conditions_of(user, name) for name in JOBS}
            before = administrator.types("trainshed migrate --dry-run", (0, 1) if named else (0,))
            assert re.search(rf"\n{len(JOBS)} jobs \(unchanged: \d+, will change: \d+\)", before), before
            for command in typed:
                administrator.types(command)
                if "--replicas=0" in command:
                    old.stop()
                    with pytest.raises(Refused, match="failed calling webhook"):
                        user.create(v1_job("refused"))
                elif "patch datasciencecluster" in command:
                    remove_component(admin, old)
                    old.stop()
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
            pod = admin.call("GET", path)["spec"]["template"]["spec"]
            account = plane.kubeconfig_for(f"system:serviceaccount:{namespace}:{pod['serviceAccountName']}")
            flags = [flag for flag in pod["containers"][0]["args"] if flag.startswith("--default-")]
            operator = operators.begin(account, "--leader-elect", f"--lease-namespace={namespace}", *flags)
            eventually(
                lambda: all(user.job(JOBS[one]["kind"], one)["status"].get("ready") for one in RUNNING), PATIENCE
            )
            assert uids(user) == known
            assert {one: conditions_of(user, one) for one in JOBS} == states
            check = "trainshed migrate --dry-run"  # it fails: nothing runs the pods of the Deployment
            eventually(
                lambda: f"\n{len(JOBS)} jobs (unchanged: {len(JOBS)})" in administrator.types(check, (0, 1)), PATIENCE
            )
            finish(user, kubelet)
            assert {pod: uid for pod, uid in uids(user).items() if pod in known} == known
            assert operator.stop() == 0
            assert operator.complaints() == []


def v1_job(name: str) -> dict:
    return {**JOBS["ddp"], "metadata": {"name": name}}


def test_every_command_of_the_page_is_typed():
    assert [len(commands(way)) > 3 for way in WAYS] == [True] * len(WAYS)
    assert "kubectl apply -k manifests/overlays/kubeflow" in commands("From the Kubeflow distribution")
    assert "kubectl apply -k manifests/overlays/v1" in commands("v1's names")
    assert "oc apply -k manifests/" in commands("From OpenShift AI")

"""The rights that the chart grants are enough, and each is used: by the audit log, with jobs that need all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from charts.rendering import Document, Release
from support import FakeKubelet, Operator, Refused, UserClient, v1
from support.groups import Groups, defined_groups
from support.jobs import KINDS, pytorchjob, smallest, tfjob
from support.kubectl import kubectl
from support.planes import ready_control_plane
from support.user_client import eventually
from support.v1_jobs import V1_JOBS
from testbed.control_plane import ControlPlane
from trainshed.controller.reconciler import NEW

from .people import RBAC, May, person
from .rights import Right, granted, lines
from .used_rights import used_rights

pytestmark = pytest.mark.usefixtures("helm")
SYSTEM, ACCOUNT = "trainshed-system", "system:serviceaccount:trainshed-system:trainshed"
ENFORCED = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
KEPT = {"trainshed.dev/track-results": "true"}
#: An Event whose count grows: another object still has the name.
SAYS_AGAIN = Right("", "events", "patch")
#: The Events about a PodGroup that waits.
READS_EVENTS = Right("", "events", "list")
#: The pod whose end is the end of the smallest job of a kind.
DECIDES = {"PyTorchJob": "master-0", "XGBoostJob": "master-0", "MPIJob": "launcher"}
CASES = {
    "volcano": ("scheduling.volcano.sh/v1beta1", ("gangScheduler=volcano", "trackResults=true")),
    "one-namespace": (
        "scheduling.x-k8s.io/v1alpha1",
        ("gangScheduler=scheduler-plugins", "trackResults=true", "namespaces={one-namespace}"),
    ),
}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with PodGroups and strict owner references, and no RBAC rules yet."""
    with ready_control_plane(tmp_path / "plane", ENFORCED) as plane:
        admin = UserClient(plane.kubeconfig, SYSTEM)
        admin.make_namespace()
        with defined_groups(plane):
            yield plane


def leave(user: UserClient, groups: Groups) -> None:
    """Create the objects that precede the operator: v1's jobs with their objects, and a foreign pod and Service."""
    for name in ("mpi", "elastic"):
        found, states = V1_JOBS[name]
        v1.create_job(user, found, *states)
    made = user.job("MPIJob", "mpi")
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "mpi", "uid": made["metadata"]["uid"]}
    metadata = {"name": "mpi", "ownerReferences": [owner | {"controller": True}]}
    head = {"apiVersion": "/".join(groups.path.split("/")[2:4]), "kind": "PodGroup", "metadata": metadata}
    user.call("POST", groups.path, head | {"spec": {"minMember": 7}})
    container = {"name": "c", "image": "x"}
    user.make("pods", {"metadata": {"name": "taken-worker-0"}, "spec": {"containers": [container]}})
    user.make("services", {"metadata": {"name": "taken-worker-0"}, "spec": {"ports": [{"port": 1}]}})
    user.create(tfjob("taken", Worker=1))


def play(user: UserClient, kubelet: FakeKubelet, groups: Groups) -> None:
    """Run jobs of all kinds to the end, one that restarts, and one with job tracking."""
    policy = {"ttlSecondsAfterFinished": 0, "cleanPodPolicy": "All"}
    for kind in KINDS:
        user.create(smallest(kind, kind.lower(), policy=policy))
    user.create(pytorchjob("again", restart="ExitCode", Master=1))
    kept = pytorchjob("kept", policy={"cleanPodPolicy": "All"}, Master=1)
    user.create(kept | {"metadata": {"name": "kept", "annotations": KEPT}})
    for name in (*map(str.lower, KINDS), "again", "kept", "elastic", "taken"):
        groups.set_phase(name, "Inqueue")
    for kind in KINDS:
        eventually(lambda kind=kind: user.state(kind, kind.lower()) == "Running", 60)
    # The operator reads a job before it deletes pods only if the job is not new.
    time.sleep(NEW.total_seconds())
    for kind in KINDS:
        kubelet.end(f"{kind.lower()}-{DECIDES.get(kind, 'worker-0')}", 0)
    eventually(lambda: user.state("PyTorchJob", "again") == user.state("PyTorchJob", "kept") == "Running", 30)
    kubelet.end("kept-master-0", 0)
    kubelet.end("elastic-worker-0", 0)
    kubelet.end("again-master-0", 137)
    eventually(lambda: user.conditions("TFJob", "taken").get("Blocked"))
    eventually(lambda: not [kind for kind in KINDS if user.job(kind, kind.lower())], 30)
    eventually(lambda: kubelet.created.count("again-master-0") == 2, 30)
    eventually(lambda: user.pod("kept-master-0") is None, 30)


def install(plane: ControlPlane, documents: list[Document]) -> tuple[str, ...]:
    """Grant the rights of the chart; return the operator's flags in the chart."""
    roles = [found for found in documents if found["apiVersion"].startswith("rbac.")]
    for where in {found["metadata"].get("namespace", "") for found in roles}:
        here = yaml.safe_dump_all(found for found in roles if found["metadata"].get("namespace", "") == where)
        done = kubectl(plane, UserClient(plane.kubeconfig, where), "apply", "-f", "-", text=here)
        assert done.returncode == 0, done.stderr
    (deployment,) = (found for found in documents if found["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return (*container["args"][1:], f"--lease-namespace={SYSTEM}")


@pytest.mark.parametrize("name", CASES)
def test_the_charts_rights_are_sufficient_and_all_used(plane: ControlPlane, name: str, tmp_path: Path):
    api, sets = CASES[name]
    documents = Release().documents(None, "crds.install=false", "aggregatedRoles.enabled=false", *sets)
    user = UserClient(plane.kubeconfig, name)
    user.make_namespace()
    groups = Groups(user, api)
    leave(user, groups)
    flags = install(plane, documents)
    with FakeKubelet(user) as kubelet:
        operator = Operator(plane.kubeconfig_for(ACCOUNT), tmp_path, *flags).start()
        user.create(pytorchjob("waits", Master=1))
        groups.set_phase("waits", "Pending")
        play(user, kubelet, groups)
        eventually(lambda: used_rights(plane.audit_log, ACCOUNT).shows(SAYS_AGAIN), 60)
        if READS_EVENTS in granted(documents, "trainshed"):
            eventually(lambda: used_rights(plane.audit_log, ACCOUNT).shows(READS_EVENTS), 60)
        assert operator.stop() == 0
    assert operator.complaints() == []
    found = used_rights(plane.audit_log, ACCOUNT)
    assert sorted(map(str, found.refused)) == []
    held = {(right.group, right.resource) for line in lines() if line.held for right in line.rights}
    idle = [right for right in granted(documents, "trainshed") if not found.shows(right)]
    assert sorted(str(right) for right in idle if (right.group, right.resource) not in held) == []


def test_rights_that_no_request_shows_are_needed(plane: ControlPlane):
    admin = UserClient(plane.kubeconfig, "held")
    admin.make_namespace()
    made = admin.create(tfjob("a", Worker=1))
    creates = (May(("create",), "pods"), May(("create",), "roles", "rbac.authorization.k8s.io"))
    finalizes, enters = May(("update",), "tfjobs/finalizers", "kubeflow.org"), May(("create",), "pods/exec")
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "a", "uid": made["metadata"]["uid"]}
    metadata = {"name": "p", "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}]}
    pod = "/api/v1/namespaces/held/pods", {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    role = f"{RBAC}/namespaces/held/roles", {"metadata": {"name": "enter"}, "rules": [enters.rule()]}
    for name, rights, wanted in (("neither", (), [403, 403]), ("both", (finalizes, enters), [201, 201])):
        person_ = person(plane, "held", name, *creates, *rights)
        eventually(lambda who=person_, said=wanted: [_code(who, *pod), _code(who, *role)] == said)


def _code(who: UserClient, path: str, body: Document) -> int:
    try:
        who.call("POST", f"{path}?dryRun=All", body)
    except Refused as refused:
        return refused.code
    return 201

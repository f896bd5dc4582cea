"""`trainshed plan` on a real API server, as an administrator and as users with `edit`, with `view` and with nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import UserClient
from support.jobs import job, pod_spec, pytorchjob
from support.people import READS, WRITES, Person, person
from support.user_client import eventually
from testbed.control_plane import ControlPlane

MERGE, STATUS = "application/merge-patch+json", {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"}
RBAC, CLASSES = "/apis/rbac.authorization.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="module")
def nodes(second_server: ControlPlane) -> Iterator[UserClient]:
    """An administrator of a cluster with two nodes of eight GPUs, one of them tainted, and a PriorityClass."""
    admin = UserClient(second_server.kubeconfig, "default")
    for name, taints in (("free", []), ("tainted", [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])):
        admin.call("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": {"taints": taints}})
        admin.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, MERGE)
        admin.call(
            "PATCH", f"/api/v1/nodes/{name}/status", {"status": {"allocatable": STATUS, "capacity": STATUS}}, MERGE
        )
    admin.call("POST", CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    yield admin
    admin.call("DELETE", f"{CLASSES}/high")
    for name in ("free", "tainted"):
        admin.call("DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def owner(nodes: UserClient, second_user: UserClient) -> UserClient:
    """A user in a namespace with a quota of eight GPUs."""
    where = f"/api/v1/namespaces/{second_user.namespace}"
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    second_user.call("POST", f"{where}/resourcequotas", quota)
    eventually(lambda: "hard" in nodes.call("GET", f"{where}/resourcequotas/gpus").get("status", {}), 30)
    eventually(lambda: nodes.call("GET", f"{where}/serviceaccounts/default"), 30)
    return second_user


def asking(gpus: int, workers: int = 1, **fields: object) -> str:
    """A PyTorchJob whose pods ask for so many GPUs each."""
    found = pytorchjob("mnist", Worker=workers)
    spec = pod_spec(found, "Worker")
    spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "1", "memory": "1Gi"}}
    spec.update(fields)
    return json.dumps(found)


def somebody_with(plane: ControlPlane, owner: UserClient, folder: Path, role: str) -> Person:
    """A user with a ClusterRole of Kubernetes, and the rights to jobs that it aggregates; without a name with none."""
    found = person(plane, owner, folder, {"edit": WRITES[:-1], "view": READS[:-1]}.get(role, []))
    if role:
        subject = {"kind": "User", "name": f"reader-of-{owner.namespace}", "apiGroup": RBAC.split("/")[2]}
        reference = {"apiGroup": RBAC.split("/")[2], "kind": "ClusterRole", "name": role}
        path = f"{RBAC}/namespaces/{owner.namespace}/rolebindings"
        owner.call("POST", path, {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]})
    return found


def planned(found: Person, text: str, *words: str) -> tuple[int, dict]:
    done = found.run("plan", "-f", "-", "-o", "json", *words, stdin=text)
    assert done.stderr == "", done.stderr
    (plan,) = json.loads(done.stdout)
    return done.returncode, plan


def said(plan: dict, verdict: str) -> list[str]:
    return [f"{item['part']} {item['message']}" for item in plan["assessments"] if item["verdict"] == verdict]


LACKS = "Quota ResourceQuota gpus lacks {} requests.nvidia.com/gpu: the job needs {}, and 0 of 8 are used"


@pytest.mark.parametrize(("workers", "lacking"), [(2, None), (3, LACKS.format(4, 12)), (9, LACKS.format(28, 36))])
def test_an_administrator_gets_the_whole_plan(second_server, owner, workers, lacking):
    code, plan = planned(Person(second_server.kubeconfig, owner.namespace), asking(4, workers))
    assert (code, plan["complete"]) == (1 if lacking else 0, True), plan
    assert plan["roles"][0]["requests"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "4"}
    assert plan["roles"][0]["pods"] == [f"mnist-worker-{index}" for index in range(workers)]
    assert {"kind": "Service", "name": "mnist-worker-0"} in plan["objects"]
    assert lacking is None or lacking in said(plan, "does not fit"), plan
    assert owner.jobs("PyTorchJob") == []
    assert owner.pods() == []


def test_what_the_cluster_lacks_is_said_with_the_figure(second_server, nodes, owner):
    nodes.call("DELETE", f"/api/v1/namespaces/{owner.namespace}/resourcequotas/gpus")
    taken = {"metadata": {"name": "other"}, "spec": {"nodeName": "free", "containers": [{"name": "a", "image": "a"}]}}
    taken["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "5"}}
    owner.call("POST", f"/api/v1/namespaces/{owner.namespace}/pods", taken)
    text = asking(4, priorityClassName="high", imagePullSecrets=[{"name": "registry"}])
    code, plan = planned(Person(second_server.kubeconfig, owner.namespace), text)
    owner.call("DELETE", f"/api/v1/namespaces/{owner.namespace}/pods/other?gracePeriodSeconds=0")
    assert (code, plan["verdict"]) == (1, "does not fit")
    missing = (
        f"Objects namespace {owner.namespace} has no Secret registry, which Worker names: its pods would wait for it"
    )
    assert said(plan, "does not fit") == [missing]
    (preempting,) = said(plan, "warning")
    assert preempting.startswith(
        "Nodes 0 of 1 pod finds room, and the others only by preempting pods of lower priority"
    )
    assert "Priority Worker: priority 1000 of PriorityClass high; they may preempt pods of a lower one" in said(
        plan, "ok"
    )


@pytest.mark.usefixtures("nodes")
def test_admission_is_asked_for_each_role(second_server, owner):
    namespace = f"/api/v1/namespaces/{owner.namespace}"
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    UserClient(second_server.kubeconfig, "default").call("PATCH", namespace, level, MERGE)
    mpi = json.dumps(job("MPIJob", "hello", Launcher=1, Worker=1))
    code, plan = planned(Person(second_server.kubeconfig, owner.namespace), mpi)
    assert (code, plan["verdict"]) == (1, "refused")
    first, second = said(plan, "refused")
    assert first.startswith('Admission pod hello-launcher: pods "hello-launcher" is forbidden: violates PodSecurity')
    assert second.startswith("Admission pod hello-worker-0: ")


NOT_LOOKED_AT = {
    "edit": ["which flags", "whether nodes have room"],
    "view": [
        "which flags",
        "whether nodes have room",
        "whether the API server accepts the job",
        "whether the API server and Pod Security accept the pods",
        "whether there is Secret registry",
        "which priority the pods have",
    ],
    "": [
        "which flags",
        "whether nodes have room",
        "whether the API server accepts the job",
        "whether the API server and Pod Security accept the pods",
        "whether there is a namespace",
        "whether there is Secret registry",
        "which priority the pods have",
        "whether quotas have room",
        "whether pods are within the LimitRanges",
    ],
}


@pytest.mark.parametrize("role", NOT_LOOKED_AT, ids=["edit", "view", "nothing"])
def test_a_user_who_may_not_read_gets_a_partial_plan_that_names_each_part(second_server, owner, tmp_path, role):
    secret = {"metadata": {"name": "registry"}}
    owner.call("POST", f"/api/v1/namespaces/{owner.namespace}/secrets", secret)
    found = somebody_with(second_server, owner, tmp_path, role)
    text = asking(4, imagePullSecrets=[{"name": "registry"}])
    eventually(lambda: not role or "may list" not in found.run("get").stderr, 20)
    code, plan = planned(found, text)
    assert (code, plan["verdict"], plan["complete"]) == (0, "fits", False), plan
    unknown = [line.partition(" ")[2] for line in said(plan, "not looked at")]
    assert all(": ask for the right to " in line for line in unknown), unknown
    expected = NOT_LOOKED_AT[role]
    assert [next((start for start in expected if line.startswith(start)), line) for line in sorted(unknown)] == sorted(
        expected
    )
    printed = found.run("plan", "-f", "-", stdin=text)
    assert printed.stdout.startswith(f"PyTorchJob {owner.namespace}/mnist fits, as far as is known.\n")
    assert planned(found, asking(9))[0] == (1 if role else 0)


def test_hostile_text_is_one_printable_line(second_server, owner):
    hostile = json.loads(asking(1))
    pod_spec(hostile, "Worker")["nodeSelector"] = {"a": "b"}
    pod_spec(hostile, "Worker")["imagePullSecrets"] = [{"name": "x\x1b[31m\ny"}]
    done = Person(second_server.kubeconfig, owner.namespace).run("plan", "-f", "-", stdin=json.dumps(hostile))
    assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (1, False)
    assert "\nrefused" not in done.stdout

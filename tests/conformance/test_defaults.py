"""The defaults of a job, as seen in its pods, its Services and its end (TO-015 to TO-032)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, UserClient
from support.jobs import KINDS, job, pod_spec, replicas
from support.pods import container, env, names, ports
from support.user_client import always, eventually

from .row import same

pytestmark = pytest.mark.usefixtures("operator")

TF, PT, MPI, XGB, PD, JX = KINDS
#: The default port of each kind that has Services.
PORTS = {TF: ("tfjob-port", 2222), XGB: ("xgboostjob-port", 9999), PD: ("master", 36543), JX: ("jaxjob-port", 6666)}


def created(user: UserClient, wanted: dict, pods: int = 1) -> list[dict]:
    """Create the job; return its pods once all of them exist."""
    user.create(wanted)
    return eventually(lambda: found if len(found := user.pods()) == pods else None)


def succeed(user: UserClient, kubelet: FakeKubelet, kind: str, pod: str) -> None:
    """Let all pods of job `a` run, and this one bring about its success."""
    eventually(lambda: user.state(kind, "a") == "Running")
    kubelet.end(pod, 0)
    eventually(lambda: user.state(kind, "a") == "Succeeded")


def still_runs(user: UserClient, name: str) -> bool:
    """Return whether a pod exists and is unchanged."""
    pod = user.pod(name)
    return pod is not None and pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


@same("TO-015", "TFJob: a role in capitals is that role, and has one replica if it does not say")
def test_a_role_in_capitals(user: UserClient, kubelet: FakeKubelet):
    (pod,) = created(user, job(TF, "a", WORKER=None))
    assert pod["metadata"]["name"] == "a-worker-0"
    eventually(lambda: user.state(TF, "a") == "Running")
    assert user.job(TF, "a")["status"]["replicaStatuses"] == {"Worker": {"active": 1, "ready": 1}}


@pytest.mark.parametrize(
    ("restart", "expected"),
    [
        pytest.param(
            "Always",
            "Always",
            marks=same("TO-016", "TFJob: one replica, the given policy and port, and no pod is cleaned away"),
        ),
        pytest.param(None, "Never", marks=same("TO-017", "TFJob: Never, where no restart policy is given")),
    ],
)
def test_a_tfjob_of_few_words(user: UserClient, kubelet: FakeKubelet, restart: str | None, expected: str):
    wanted = job(TF, "a", restart=restart, Worker=None, PS=1)  # the server shows whether running pods are cleaned away
    pod_spec(wanted, "Worker")["containers"][0]["ports"] = [{"name": "tfjob-port", "containerPort": 2222}]
    pods = created(user, wanted, 2)
    assert names(pods) == ["a-ps-0", "a-worker-0"]
    assert {pod["spec"]["restartPolicy"] for pod in pods} == {expected}
    assert ports(pods[1]) == [("tfjob-port", 2222)]
    succeed(user, kubelet, TF, "a-worker-0")
    always(lambda: still_runs(user, "a-ps-0"))


@same("TO-018", "TFJob: the port tfjob-port 2222 is added to a container without ports")
def test_a_port_is_added(user: UserClient):
    (pod,) = created(user, job(TF, "a", Worker=1))
    assert ports(pod) == [PORTS[TF]]


@same("TO-019", "TFJob: the default port comes after other ports, and the Service has both")
def test_a_port_is_added_to_others(user: UserClient):
    wanted = job(TF, "a", Worker=1)
    pod_spec(wanted, "Worker")["containers"][0]["ports"] = [{"name": "customport", "containerPort": 1234}]
    (pod,) = created(user, wanted)
    assert ports(pod) == [("customport", 1234), PORTS[TF]]
    (service,) = eventually(lambda: _services(user))
    assert {(port["name"], port["port"]) for port in service["spec"]["ports"]} == {("customport", 1234), PORTS[TF]}


@same("TO-020", "TFJob: cleanPodPolicy All is kept, and all pods go")
def test_a_clean_pod_policy_is_kept(user: UserClient, kubelet: FakeKubelet):
    created(user, job(TF, "a", policy={"cleanPodPolicy": "All"}, Worker=1, PS=1), 2)
    succeed(user, kubelet, TF, "a-worker-0")
    eventually(lambda: not user.pods())


@same("TO-021", "TFJob: the port goes to the container tensorflow, not to a sidecar before it")
def test_a_sidecar_gets_no_port(user: UserClient):
    wanted = job(TF, "a", Worker=1)
    pod_spec(wanted, "Worker")["containers"].insert(0, {"name": "sidecar", "image": "busybox"})
    (pod,) = created(user, wanted)
    assert (ports(pod, "sidecar"), ports(pod, "tensorflow")) == ([], [PORTS[TF]])


ONE = same("TO-023", "PyTorchJob: of an elastic policy's two bounds the one that is given stands for both")


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({}, marks=same("TO-022", "PyTorchJob: without bounds both are the number of workers")),
        pytest.param({"maxReplicas": 1}, marks=ONE),
        pytest.param({"minReplicas": 1}, marks=ONE),
        pytest.param({"minReplicas": 1, "maxReplicas": 1}, marks=ONE),
    ],
)
def test_the_bounds_of_an_elastic_job(user: UserClient, policy: dict):
    (pod,) = created(user, _elastic(policy, Worker=1))
    assert env(pod)["PET_NNODES"] == "1:1"


@same("TO-022", "PyTorchJob: without bounds both are the number of workers")
@same("TO-023", "PyTorchJob: of an elastic policy's two bounds the one that is given stands for both")
@pytest.mark.parametrize(("policy", "bounds"), [({}, "3:3"), ({"maxReplicas": 5}, "5:5"), ({"minReplicas": 2}, "2:2")])
def test_the_bounds_of_a_larger_elastic_job(user: UserClient, policy: dict, bounds: str):
    pods = created(user, _elastic(policy, Worker=3), 3)
    assert {env(pod)["PET_NNODES"] for pod in pods} == {bounds}


@same("TO-024", "PyTorchJob: PET_NPROC_PER_NODE is auto where nothing is said")
@pytest.mark.parametrize("policy", [None, {}])
def test_processes_per_node_are_automatic(user: UserClient, policy: dict | None):
    (pod,) = created(user, _elastic(policy, Worker=1))
    assert env(pod)["PET_NPROC_PER_NODE"] == "auto"


@same("TO-025", "PyTorchJob: the elastic policy's nProcPerNode is the only PET_NPROC_PER_NODE")
def test_processes_per_node_are_said_once(user: UserClient):
    (pod,) = created(user, _elastic({"nProcPerNode": 2}, Worker=1))
    said = [one["value"] for one in container(pod)["env"] if one["name"] == "PET_NPROC_PER_NODE"]
    assert said == ["2"]


@same("TO-026", "MPIJob: one launcher and no workers where nothing is said, and an empty hostfile")
def test_an_mpijob_without_numbers(user: UserClient):
    (pod,) = created(user, job(MPI, "a", Launcher=None, Worker=None))
    assert pod["metadata"]["name"] == "a-launcher"
    config = next(one for one in user.core("configmaps") if one["metadata"]["name"] == "a-config")
    assert config["data"]["hostfile"] == ""


@pytest.mark.parametrize(
    ("of_spec", "of_run", "cleaned"),
    [
        pytest.param(None, None, False, marks=same("TO-027", "MPIJob: restart policy Never, clean pod policy None")),
        pytest.param(
            "Running", None, True, marks=same("TO-028", "MPIJob: the run policy's clean pod policy comes first")
        ),
        pytest.param("All", "None", False, marks=same("TO-028", "MPIJob: the run policy's comes first")),
    ],
)
def test_an_mpijobs_two_clean_pod_policies(
    user: UserClient, kubelet: FakeKubelet, of_spec: str, of_run: str, cleaned: bool
):
    wanted = job(MPI, "a", policy={"cleanPodPolicy": of_run} if of_run else {}, restart=None, Launcher=1, Worker=1)
    if of_spec:
        wanted["spec"]["cleanPodPolicy"] = of_spec
    pods = created(user, wanted, 2)
    assert {pod["spec"]["restartPolicy"] for pod in pods} == {"Never"}
    succeed(user, kubelet, MPI, "a-launcher")
    if cleaned:
        eventually(lambda: names(user.pods()) == ["a-launcher"])
    else:
        always(lambda: still_runs(user, "a-worker-0"))


@same("TO-029", "XGBoostJob: clean pod policy None, restart policy Never, one replica, port xgboostjob-port 9999")
def test_an_xgboostjob_of_few_words(user: UserClient, kubelet: FakeKubelet):
    wanted = job(XGB, "a", restart=None, Master=1, Worker=None)
    pods = created(user, wanted, 2)
    assert names(pods) == ["a-master-0", "a-worker-0"]
    for pod in pods:
        assert (pod["spec"]["restartPolicy"], ports(pod)) == ("Never", [PORTS[XGB]])
    succeed(user, kubelet, XGB, "a-master-0")
    always(lambda: still_runs(user, "a-worker-0"))


@same("TO-030", "XGBoostJob: a given restart policy, number, port and clean pod policy is kept")
def test_an_xgboostjob_of_many_words(user: UserClient, kubelet: FakeKubelet):
    wanted = job(XGB, "a", policy={"cleanPodPolicy": "All"}, restart="OnFailure", Master=1, Worker=3)
    for role in ("Master", "Worker"):
        pod_spec(wanted, role)["containers"][0]["ports"] = [{"name": "xgboostjob-port", "containerPort": 1234}]
    pods = created(user, wanted, 4)
    assert names(pods) == ["a-master-0", "a-worker-0", "a-worker-1", "a-worker-2"]
    for pod in pods:
        assert (pod["spec"]["restartPolicy"], ports(pod)) == ("OnFailure", [("xgboostjob-port", 1234)])
    succeed(user, kubelet, XGB, "a-master-0")
    eventually(lambda: not user.pods())


@pytest.mark.parametrize(
    ("kind", "restart"),
    [
        pytest.param(PD, "OnFailure", marks=same("TO-031", "PaddleJob: port master 36543, restart policy OnFailure")),
        pytest.param(
            JX, "Never", marks=same("TO-032", "JAXJob: port jaxjob-port 6666, restart policy Never, one replica")
        ),
    ],
)
def test_a_job_of_workers_and_few_words(user: UserClient, kind: str, restart: str):
    wanted = job(kind, "a", restart=None, Worker=None)
    assert set(replicas(wanted, "Worker")) == {"template"}
    (pod,) = created(user, wanted)
    assert pod["metadata"]["name"] == "a-worker-0"
    assert (pod["spec"]["restartPolicy"], ports(pod)) == (restart, [PORTS[kind]])


def _elastic(policy: dict | None, **roles: int) -> dict:
    wanted = job(PT, "a", **roles)
    if policy is not None:
        wanted["spec"]["elasticPolicy"] = policy
    return wanted


def _services(user: UserClient) -> list[dict]:
    return [one for one in user.core("services") if one["metadata"]["name"].startswith("a-")]

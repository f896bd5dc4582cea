"""The pods and Services of a job, their owners and their fields (TO-087 to TO-102)."""

from __future__ import annotations

import pytest

from support import UserClient
from support.jobs import KINDS, job, pod_spec, replicas
from support.pods import env, ports
from support.user_client import always, eventually

from .created_objects import created_pods, first_event, labels, owners, pods, resize, services, uids
from .row import same

pytestmark = pytest.mark.usefixtures("operator")

TF, PT, MPI, XGB, PD, JX = KINDS
SIX = ("a-worker-0", "a-worker-1", "a-worker-2", "a-worker-3", "a-ps-0", "a-ps-1")


def with_service(user: UserClient, *names: str) -> dict[str, dict]:
    """The Services by name, once they are these and no others."""
    return eventually(lambda: found if set(found := services(user)) == set(names) else None)


@same("TO-087", "a TFJob of one worker is one pod and one Service of the same name")
def test_one_worker_is_one_pod_and_one_service(user: UserClient):
    created_pods(user, job(TF, "a", Worker=1), "a-worker-0")
    with_service(user, "a-worker-0")


@same("TO-088", "four workers and two parameter servers are six pods and six Services, each controlled by the job")
def test_every_replica_has_a_pod_and_a_service(user: UserClient):
    made = created_pods(user, job(TF, "a", Worker=4, PS=2), *SIX)
    served = with_service(user, *SIX)
    for found in (*made.values(), *served.values()):
        assert found["metadata"]["ownerReferences"] == owners(user, TF, "a")


@same("TO-089", "where three of six pods exist, pending, the other three are made, and their Services")
def test_only_what_is_missing_is_made(user: UserClient):
    three = ("a-worker-0", "a-worker-1", "a-ps-0")
    before = uids(created_pods(user, job(TF, "a", Worker=2, PS=1), *three))
    served = uids(with_service(user, *three))
    resize(user, TF, "a", Worker=4, PS=2)
    after = pods(user, *SIX)
    assert {pod["status"]["phase"] for pod in after.values()} == {"Pending"}
    assert before.items() <= uids(after).items()
    assert served.items() <= uids(with_service(user, *SIX)).items()


@same("TO-090", "where all pods exist, pending, nothing is made and nothing deleted")
def test_what_is_there_stays(user: UserClient):
    before = uids(created_pods(user, job(TF, "a", Worker=4, PS=2), *SIX)), uids(with_service(user, *SIX))
    user.patch_job(TF, "a", {"metadata": {"labels": {"reconcile": "again"}}})
    always(lambda: (uids(pods(user, *SIX)), uids(services(user))) == before)


@same("TO-091", "a Service is headless, has tfjob-port 2222, and selects by the labels that it has itself")
def test_a_service_is_headless(user: UserClient):
    user.create(job(TF, "a", Worker=1))
    service = with_service(user, "a-worker-0")["a-worker-0"]
    spec = service["spec"]
    assert (spec["clusterIP"], spec["type"]) == ("None", "ClusterIP")
    assert spec["ports"] == [{"name": "tfjob-port", "port": 2222, "targetPort": 2222, "protocol": "TCP"}]
    assert spec["selector"] == service["metadata"]["labels"]
    assert labels(service) == {
        "operator-name": "tfjob-controller",
        "job-name": "a",
        "replica-type": "worker",
        "replica-index": "0",
    }
    assert service["metadata"]["ownerReferences"] == owners(user, TF, "a")


@same("TO-092", "the template's labels and annotations are the pod's, besides the operator's labels")
def test_what_the_template_carries_is_on_the_pod(user: UserClient):
    wanted = job(TF, "a", Worker=1)
    replicas(wanted, "Worker")["template"]["metadata"] = {
        "labels": {"label1": "1"},
        "annotations": {"annotation1": "1"},
    }
    pod = created_pods(user, wanted, "a-worker-0")["a-worker-0"]
    assert pod["metadata"]["annotations"]["annotation1"] == "1"
    assert labels(pod) == {
        "label1": "1",
        "operator-name": "tfjob-controller",
        "job-name": "a",
        "replica-type": "worker",
        "replica-index": "0",
        "job-role": "master",
    }


@same("TO-093", "a label of the job is not on its pods")
def test_a_jobs_own_labels_stay_with_it(user: UserClient):
    wanted = job(TF, "a", Worker=1)
    wanted["metadata"]["labels"] = {"x": "y"}
    assert "x" not in labels(created_pods(user, wanted, "a-worker-0")["a-worker-0"])


@same("TO-094", "PyTorchJob: the master's labels say its role, the workers' do not")
def test_the_labels_of_a_pytorchjob(user: UserClient):
    made = created_pods(user, job(PT, "a", Master=1, Worker=1), "a-master-0", "a-worker-0")
    both = {"operator-name": "pytorchjob-controller", "job-name": "a", "replica-index": "0"}
    assert labels(made["a-master-0"]) == both | {"replica-type": "master", "job-role": "master"}
    assert labels(made["a-worker-0"]) == both | {"replica-type": "worker"}


@pytest.mark.parametrize(
    ("kind", "roles", "leaders"),
    [
        pytest.param(
            PT, {"Worker": 2}, {"worker-0"}, marks=same("TO-095", "a PyTorchJob of workers: worker 0 has the role")
        ),
        pytest.param(
            TF,
            {"Chief": 1, "Worker": 1},
            {"chief-0"},
            marks=same("TO-096", "a TFJob's chief has the role master; worker 0 does where there is none"),
            id="chief",
        ),
        pytest.param(
            TF,
            {"Worker": 2},
            {"worker-0"},
            marks=same("TO-096", "a TFJob's chief has the role master; worker 0 does where there is none"),
            id="no chief",
        ),
    ],
)
def test_who_has_the_role_of_a_master(user: UserClient, kind: str, roles: dict, leaders: set):
    names = {f"a-{role.lower()}-{index}" for role, count in roles.items() for index in range(count)}
    assert _leaders(created_pods(user, job(kind, "a", **roles), *names)) == {f"a-{leader}" for leader in leaders}


@same("TO-097", "Paddle's peers have no role; JAX's worker 0, XGBoost's master and MPI's launcher are masters")
@pytest.mark.usefixtures("kubelet")
def test_the_masters_of_the_other_kinds(user: UserClient):
    for kind, name, roles in (
        (PD, "pd", {"Worker": 2}),
        (JX, "jx", {"Worker": 2}),
        (XGB, "xgb", {"Master": 1, "Worker": 1}),
        (MPI, "m", {"Launcher": 1, "Worker": 1}),
    ):
        user.create(job(kind, name, **roles))
    made = pods(
        user,
        *("pd-worker-0", "pd-worker-1", "jx-worker-0", "jx-worker-1"),
        *("xgb-master-0", "xgb-worker-0", "m-launcher", "m-worker-0"),
    )
    assert _leaders(made) == {"jx-worker-0", "xgb-master-0", "m-launcher"}


@same("TO-098", "PyTorchJob: a port of the master is its Service's and all pods' MASTER_PORT")
def test_all_pods_get_the_port_of_the_master(user: UserClient):
    wanted = job(PT, "a", Master=1, Worker=2)
    pod_spec(wanted, "Master")["containers"][0]["ports"] = [{"name": "pytorchjob-port", "containerPort": 8080}]
    made = created_pods(user, wanted, "a-master-0", "a-worker-0", "a-worker-1")
    (port,) = made["a-master-0"]["spec"]["containers"][0]["ports"]
    assert port == {"name": "pytorchjob-port", "containerPort": 8080, "protocol": "TCP"}
    served = with_service(user, *made)
    assert [port["port"] for port in served["a-master-0"]["spec"]["ports"]] == [8080]
    for found in (*made.values(), *served.values()):
        assert found["metadata"]["ownerReferences"] == owners(user, PT, "a")
    for pod in made.values():
        expected = {"MASTER_PORT": "8080", "MASTER_ADDR": "a-master-0", "PET_NPROC_PER_NODE": "auto"}
        assert expected.items() <= env(pod).items()
    assert ports(made["a-worker-0"]) == [("pytorchjob-port", 23456)]


@same("TO-101", "a template's restart policy is overwritten by the replicas', with a warning")
def test_a_templates_restart_policy_is_overwritten(user: UserClient):
    wanted = job(TF, "a", restart="Never", Worker=1)
    pod_spec(wanted, "Worker")["restartPolicy"] = "Always"
    assert created_pods(user, wanted, "a-worker-0")["a-worker-0"]["spec"]["restartPolicy"] == "Never"
    kind, _, message = first_event(lambda: user.events("a"), "SetPodTemplateRestartPolicy")
    assert kind == "Warning"
    assert message == "Restart policy in pod template will be overwritten by restart policy in replica spec"


@same("TO-102", "restart policies are the pod's own, but for ExitCode, which is Never there")
@pytest.mark.parametrize(
    ("policy", "of_pod"), [("ExitCode", "Never"), ("Never", "Never"), ("Always", "Always"), ("OnFailure", "OnFailure")]
)
def test_a_restart_policy_reaches_the_pod(user: UserClient, policy: str, of_pod: str):
    made = created_pods(user, job(TF, "a", restart=policy, Worker=1), "a-worker-0")
    assert made["a-worker-0"]["spec"]["restartPolicy"] == of_pod


def _leaders(made: dict[str, dict]) -> set[str]:
    return {name for name, pod in made.items() if labels(pod).get("job-role") == "master"}

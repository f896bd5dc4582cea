"""The environment of the pods of XGBoost, Paddle, JAX and MPI (TO-143 to TO-151)."""

from __future__ import annotations

import pytest

from support import UserClient
from support.jobs import KINDS, job, pod_spec
from support.user_client import eventually

from .created_objects import created_pods, owners, services, variables
from .row import differs, not_applicable, same

pytestmark = pytest.mark.usefixtures("operator")

*_, MPI, XGB, PD, JX = KINDS
UNBUFFERED = ("PYTHONUNBUFFERED", "1")
HERE = ("POD_IP_DUMMY", "status.podIP")

not_applicable(
    "TO-150",
    "JAXJob: an error where the port is missing or the index no number",
    "both cannot be: the default port is always added where none has its name, and the operator itself counts",
)


def listening(wanted: dict, port: str, number: int, *roles: str) -> dict:
    """The same job, whose roles' containers have this port."""
    for role in roles:
        pod_spec(wanted, role)["containers"][0]["ports"] = [{"name": port, "containerPort": number}]
    return wanted


def xgboost(port: int, *, world: int, rank: int) -> list[tuple[str, str]]:
    """Return the environment of a replica of the XGBoostJob `xgb`, in v1's order."""
    workers = ",".join(f"xgb-worker-{index}" for index in range(world - 1))
    return [
        ("MASTER_PORT", str(port)),
        ("MASTER_ADDR", "xgb-master-0"),
        ("WORLD_SIZE", str(world)),
        ("RANK", str(rank)),
        UNBUFFERED,
        *([("WORKER_PORT", str(port)), ("WORKER_ADDRS", workers)] if workers else []),
    ]


@differs("TO-143", "D24", "XGBoost: v1's values in v1's order, and after them those that its tracker reads")
def test_an_xgboost_master_and_its_workers(user: UserClient, kubelet: object):
    members = ("xgb-master-0", "xgb-worker-0", "xgb-worker-1")
    made = created_pods(user, job(XGB, "xgb", Master=1, Worker=2), *members)
    for rank, member in enumerate(members):
        assert variables(made[member]) == [
            *xgboost(9999, world=3, rank=rank),
            ("DMLC_TRACKER_URI", "xgb-master-0"),
            ("DMLC_TRACKER_PORT", "9999"),
            ("DMLC_TASK_ID", str(rank)),
            ("DMLC_NUM_WORKER", "3"),
        ]


@same("TO-144", "XGBoost: a master alone has world size one, and gets no workers")
def test_an_xgboost_master_alone(user: UserClient):
    pod = created_pods(user, job(XGB, "xgb", Master=1), "xgb-master-0")["xgb-master-0"]
    found = variables(pod)
    assert found[:5] == xgboost(9999, world=1, rank=0)
    assert [name for name, _ in found if name.startswith("WORKER_")] == []


@same("TO-145", "XGBoost: the port of master and workers is the one that they have")
def test_xgboosts_own_port(user: UserClient, kubelet: object):
    wanted = listening(job(XGB, "xgb", Master=1, Worker=1), "xgboostjob-port", 9991, "Master", "Worker")
    for rank, pod in enumerate(created_pods(user, wanted, "xgb-master-0", "xgb-worker-0").values()):
        assert variables(pod)[:7] == xgboost(9991, world=2, rank=rank)


@same("TO-146", "Paddle with a master: the master gets its own address, and its Service has its port")
def test_a_paddle_master(user: UserClient):
    wanted = listening(job(PD, "pd", Master=1, Worker=1), "master", 8080, "Master", "Worker")
    made = created_pods(user, wanted, "pd-master-0", "pd-worker-0")
    assert variables(made["pd-master-0"])[3:5] == [HERE, ("PADDLE_MASTER", "$(POD_IP_DUMMY):8080")]
    served = eventually(lambda: found if len(found := services(user)) == 2 else None)
    assert [port["port"] for port in served["pd-master-0"]["spec"]["ports"]] == [8080]
    for found in (*made.values(), *served.values()):
        assert found["metadata"]["ownerReferences"] == owners(user, PD, "pd")


@same("TO-147", "Paddle with a master: workers get its address, and each its rank")
def test_paddle_servers_and_trainers(user: UserClient):
    wanted = listening(job(PD, "pd", Master=1, Worker=2), "master", 8080, "Master")
    made = created_pods(user, wanted, "pd-master-0", "pd-worker-0", "pd-worker-1")
    common = [UNBUFFERED, ("PADDLE_JOB_ID", "pd"), ("PADDLE_NNODES", "3")]
    here = [HERE, ("PADDLE_MASTER", "$(POD_IP_DUMMY):8080")]
    assert variables(made["pd-master-0"]) == [*common, *here, ("PADDLE_SERVER_NUM", "1")]
    for index in range(2):
        there = [("PADDLE_MASTER", "pd-master-0:8080"), ("PADDLE_TRAINER_NUM", "1")]
        assert variables(made[f"pd-worker-{index}"]) == [*common, *there]


@differs("TO-148", "D24", "Paddle's peers meet at worker 0, which gets its own address; and each gets its rank")
def test_paddle_peers(user: UserClient):
    made = created_pods(
        user, listening(job(PD, "pd", Worker=2), "master", 37777, "Worker"), "pd-worker-0", "pd-worker-1"
    )
    common = [UNBUFFERED, ("PADDLE_JOB_ID", "pd"), ("PADDLE_NNODES", "2")]
    here = [HERE, ("PADDLE_MASTER", "$(POD_IP_DUMMY):37777")]
    assert variables(made["pd-worker-0"]) == [*common, *here, ("PADDLE_RANK", "0")]
    there = [("PADDLE_MASTER", "pd-worker-0:37777")]
    assert variables(made["pd-worker-1"]) == [*common, *there, ("PADDLE_RANK", "1")]


@differs("TO-149", "D24", "JAX: v1's values in v1's order, and after them those that jax.distributed reads")
def test_a_jax_process(user: UserClient):
    pod = created_pods(user, job(JX, "test-jaxjob", Worker=1), "test-jaxjob-worker-0")["test-jaxjob-worker-0"]
    assert variables(pod) == [
        UNBUFFERED,
        ("COORDINATOR_PORT", "6666"),
        ("COORDINATOR_ADDRESS", "test-jaxjob-worker-0"),
        ("NUM_PROCESSES", "1"),
        ("PROCESS_ID", "0"),
        ("JAX_COORDINATOR_ADDRESS", "test-jaxjob-worker-0:6666"),
        ("JAX_NUM_PROCESSES", "1"),
        ("JAX_PROCESS_ID", "0"),
    ]


@differs(
    "TO-151", "D24", "MPI: the launcher gets the environment in v1's order, and then in newer names; workers get none"
)
def test_an_mpi_launcher(user: UserClient, kubelet: object):
    wanted = job(MPI, "m", Launcher=1, Worker=1)
    pod_spec(wanted, "Worker")["containers"][0]["env"] = [{"name": "OWN", "value": "x"}]
    made = created_pods(user, wanted, "m-launcher", "m-worker-0")
    kubexec, hostfile = "/etc/mpi/kubexec.sh", "/etc/mpi/hostfile"
    assert variables(made["m-launcher"]) == [
        ("OMPI_MCA_plm_rsh_agent", kubexec),
        ("OMPI_MCA_orte_default_hostfile", hostfile),
        ("NVIDIA_VISIBLE_DEVICES", ""),
        ("NVIDIA_DRIVER_CAPABILITIES", ""),
        ("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", kubexec),
        ("PRTE_MCA_plm_ssh_agent", kubexec),
        ("PRTE_MCA_prte_default_hostfile", hostfile),
        ("HYDRA_LAUNCHER", "rsh"),
        ("HYDRA_LAUNCHER_EXEC", kubexec),
    ]
    assert variables(made["m-worker-0"]) == [("OWN", "x")]

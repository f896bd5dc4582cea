"""The environment of the pods of a PyTorchJob (TO-134 to TO-142)."""

from __future__ import annotations

import pytest

from support import UserClient
from support.jobs import job, pod_spec

from .created_objects import created_pods, variables
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

PT = "PyTorchJob"
UNBUFFERED = ("PYTHONUNBUFFERED", "1")
CURE = ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")


def ddp(nproc: str | None = None, policy: dict | None = None, **roles: int) -> dict:
    """A PyTorchJob `ddp`, by default with a master and two workers."""
    wanted = job(PT, "ddp", restart="OnFailure", **(roles or {"Master": 1, "Worker": 2}))
    if nproc is not None:
        wanted["spec"]["nprocPerNode"] = nproc
    if policy is not None:
        wanted["spec"]["elasticPolicy"] = policy
    return wanted


def environments(user: UserClient, wanted: dict) -> dict[str, list[tuple[str, str]]]:
    """Return the environment of each pod by replica."""
    roles = wanted["spec"]["pytorchReplicaSpecs"].items()
    members = [f"{role.lower()}-{index}" for role, group in roles for index in range(group["replicas"])]
    made = created_pods(user, wanted, *(f"ddp-{member}" for member in members))
    return {member: variables(made[f"ddp-{member}"]) for member in members}


def ranks(first: str, world: int, rank: int) -> list[tuple[str, str]]:
    """Return the variables for the address of rank 0 and for this rank, in v1's order."""
    return [
        ("MASTER_PORT", "23456"),
        ("PET_MASTER_PORT", "23456"),
        ("MASTER_ADDR", f"ddp-{first}"),
        ("PET_MASTER_ADDR", f"ddp-{first}"),
        ("WORLD_SIZE", str(world)),
        ("RANK", str(rank)),
        ("PET_NODE_RANK", str(rank)),
    ]


def rendezvous(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the variables that only elastic jobs get."""
    return [pair for pair in found if pair[0].startswith(("PET_RDZV", "PET_MAX", "PET_STANDALONE", "PET_NNODES"))]


@same("TO-134", "a master and two workers of four processes: the values, in v1's order")
def test_a_master_and_its_workers(user: UserClient):
    found = environments(user, ddp("4"))
    for rank, member in enumerate(("master-0", "worker-0", "worker-1")):
        nodes = [("PET_NPROC_PER_NODE", "4"), ("PET_NNODES", "3")]
        assert found[member] == [UNBUFFERED, *ranks("master-0", 12, rank), *nodes]


@same("TO-135", "processes that are not counted do not count in WORLD_SIZE")
@pytest.mark.parametrize("nproc", ["auto", "cpu", "gpu"])
def test_processes_by_a_word(user: UserClient, nproc: str):
    for found in environments(user, ddp(nproc)).values():
        assert {("WORLD_SIZE", "3"), ("PET_NPROC_PER_NODE", nproc)} <= set(found)


@differs("TO-136", "D23", "workers without a master get worker 0 as the master; in v1 they get none")
def test_workers_without_a_master(user: UserClient):
    found = environments(user, ddp(Worker=2))
    for rank, member in enumerate(("worker-0", "worker-1")):
        nodes = [("PET_NPROC_PER_NODE", "auto"), ("PET_NNODES", "2")]
        assert found[member] == [UNBUFFERED, *ranks("worker-0", 2, rank), *nodes]


@same("TO-137", "without an elastic policy nothing is said of a rendezvous")
def test_a_job_that_is_not_elastic(user: UserClient):
    for found in environments(user, ddp()).values():
        assert rendezvous(found) == [("PET_NNODES", "3")]


@differs("TO-138", "D24", "all that an elastic policy can say, in v1's order; and the cure for torch's shared store")
def test_a_whole_elastic_policy(user: UserClient):
    conf = [{"key": f"rdzv-conf-name{tail}", "value": f"rdzv-conf-value{tail}"} for tail in ("", "-1")]
    policy = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3, "rdzvBackend": "c10d", "rdzvPort": 1234}
    policy |= {"rdzvHost": "localhost", "rdzvId": "rdzv-id", "rdzvConf": conf}
    found = environments(user, ddp(policy=policy, Worker=1))["worker-0"]
    assert found == [
        UNBUFFERED,
        ("PET_NPROC_PER_NODE", "auto"),
        ("PET_RDZV_ENDPOINT", "localhost:1234"),
        ("PET_RDZV_BACKEND", "c10d"),
        ("PET_NNODES", "1:3"),
        ("PET_MAX_RESTARTS", "3"),
        ("PET_RDZV_ID", "rdzv-id"),
        ("PET_RDZV_CONF", "rdzv-conf-name=rdzv-conf-value,rdzv-conf-name-1=rdzv-conf-value-1"),
        CURE,
    ]


@same("TO-139", "standalone is a variable without a value, and none if false")
@pytest.mark.parametrize(("standalone", "expected"), [(True, [("PET_STANDALONE", "")]), (False, [])])
def test_standalone(user: UserClient, standalone: bool, expected: list):
    found = environments(user, ddp(policy={"standalone": standalone}, Worker=1))["worker-0"]
    assert [pair for pair in found if pair[0] == "PET_STANDALONE"] == expected


@same("TO-140", "an elastic job with a master gets both environments, and the master is no node of the rendezvous")
def test_an_elastic_job_with_a_master(user: UserClient):
    found = environments(user, ddp(policy={"minReplicas": 1, "maxReplicas": 3}, Master=1, Worker=2))
    for rank, member in enumerate(("master-0", "worker-0", "worker-1")):
        assert found[member][1:8] == ranks("master-0", 3, rank)
        assert rendezvous(found[member]) == [
            ("PET_RDZV_ENDPOINT", "ddp-worker-0:23456"),
            ("PET_RDZV_BACKEND", "c10d"),
            ("PET_NNODES", "1:3"),
        ]


@same("TO-141", "every container gets the environment, init containers do not")
def test_every_container_gets_the_environment(user: UserClient):
    wanted = ddp(Master=1)
    spec = pod_spec(wanted, "Master")
    spec["containers"].append({"name": "sidecar", "image": "busybox"})
    spec["initContainers"] = [{"name": "before", "image": "busybox"}]
    pod = created_pods(user, wanted, "ddp-master-0")["ddp-master-0"]
    assert variables(pod, "sidecar") == variables(pod, "pytorch") != []
    assert [one.get("env") for one in pod["spec"]["initContainers"]] == [None]


@differs("TO-142", "D32", "an empty rdzvConf is ignored; v1 fails on it at every reconcile")
def test_an_empty_configuration_is_none(user: UserClient):
    found = environments(user, ddp(policy={"rdzvConf": []}, Worker=1))["worker-0"]
    assert [name for name, _ in rendezvous(found)] == ["PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_NNODES"]

"""The variables of `env://` and torchrun, in v1's order, and the restart scope of PyTorchJobs."""

from __future__ import annotations

import pytest

from support.builders import a_job, elastic, replace
from support.jobs import pytorchjob
from trainshed.api import parse
from trainshed.api.framework import JobDefaults, PodNames
from trainshed.api.job import Replica, RestartScope
from trainshed.api.objects import AUTOSCALERS
from trainshed.frameworks.pytorch import PYTORCH, PyTorchJobOptions

STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"


def env(job, role, index):
    """Return the variables of a replica as NAME=value."""
    return [
        f"{variable.name}={variable.value}"
        for variable in PYTORCH.hooks.environment(job, JobDefaults())(Replica(role, index))
    ]


def ddp(nproc, **roles):
    return a_job("PyTorchJob", name="ddp", options=PyTorchJobOptions(nproc_per_node=nproc), **roles)


def test_the_master_is_rank_0_and_the_world_counts_processes():
    job = ddp("4", master=1, worker=2)
    assert env(job, "Master", 0) == [
        "PYTHONUNBUFFERED=1",
        "MASTER_PORT=23456",
        "PET_MASTER_PORT=23456",
        "MASTER_ADDR=ddp-master-0",
        "PET_MASTER_ADDR=ddp-master-0",
        "WORLD_SIZE=12",
        "RANK=0",
        "PET_NODE_RANK=0",
        "PET_NPROC_PER_NODE=4",
        "PET_NNODES=3",
    ]
    assert "RANK=2" in env(job, "Worker", 1)
    assert "PET_NODE_RANK=2" in env(job, "Worker", 1)


@pytest.mark.parametrize("nproc", ["auto", "cpu", "gpu", None])
def test_without_a_number_of_processes_the_world_counts_pods(nproc):
    variables = env(ddp(nproc, master=1, worker=2), "Worker", 0)
    assert "WORLD_SIZE=3" in variables
    assert (f"PET_NPROC_PER_NODE={nproc}" in variables) is (nproc is not None)


def test_without_a_master_worker_0_is_rank_0():
    job = ddp("auto", worker=2)
    assert {"MASTER_ADDR=ddp-worker-0", "WORLD_SIZE=2", "RANK=1", "PET_NNODES=2"} <= set(env(job, "Worker", 1))
    assert [PYTORCH.hooks.is_leader(job, replica) for replica in job.all_replicas] == [True, False]


def test_the_masters_port_is_the_one_it_names():
    job = ddp("auto", master=1, worker=1)
    groups = tuple(replace(group, port=8080) if group.role == "Master" else group for group in job.groups)
    assert "MASTER_PORT=8080" in env(replace(job, groups=groups), "Worker", 0)


def test_an_elastic_job_meets_at_worker_0_and_leaves_ranks_to_torchrun():
    job = a_job("PyTorchJob", name="el", worker=2, options=elastic(1, 3, max_restarts=100))
    assert env(job, "Worker", 1) == [
        "PYTHONUNBUFFERED=1",
        "PET_NPROC_PER_NODE=auto",
        "PET_RDZV_ENDPOINT=el-worker-0:23456",
        "PET_RDZV_BACKEND=c10d",
        "PET_NNODES=1:3",
        "PET_MAX_RESTARTS=100",
        STORE,
    ]


@pytest.mark.parametrize(
    ("roles", "host", "ranks"),
    [({"worker": 3}, "el-worker-0", [0, 1, 2]), ({"master": 1, "worker": 2}, "el-master-0", [1, 2])],
)
def test_the_static_rendezvous_gets_ranks_the_address_of_rank_0_and_the_number_of_nodes(roles, host, ranks):
    job = a_job("PyTorchJob", name="el", options=elastic(1, 5, backend="static"), **roles)
    variables = PYTORCH.hooks.environment(job, JobDefaults())
    for index, rank in enumerate(ranks):
        found = {variable.name: variable.value for variable in variables(Replica("Worker", index))}
        assert found["PET_RDZV_BACKEND"] == "static"
        assert found["PET_RDZV_ENDPOINT"] == f"{host}:23456"
        assert (found["PET_NODE_RANK"], found["RANK"], found["PET_NNODES"]) == (str(rank), str(rank), "3")
        assert (found["MASTER_ADDR"], found["WORLD_SIZE"]) == (host, "3")
        assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in found
    assert PYTORCH.hooks.scope(job) is RestartScope.JOB


def test_an_elastic_job_without_workers_meets_at_the_usual_port():
    job = a_job("PyTorchJob", master=1, options=elastic())
    assert "PET_RDZV_ENDPOINT=mnist-worker-0:23456" in env(job, "Master", 0)


def test_a_group_starts_whole_unless_it_is_elastic():
    assert PYTORCH.hooks.scope(ddp("auto", worker=2)) is RestartScope.JOB
    assert PYTORCH.hooks.scope(a_job("PyTorchJob", worker=2, options=elastic())) is RestartScope.REPLICA


def test_a_job_of_nobody_has_no_goal_and_no_ranks():
    job = a_job("PyTorchJob")
    assert PYTORCH.hooks.success_policy(job) is None
    assert env(job, "Worker", 0) == ["PYTHONUNBUFFERED=1", "PET_NNODES=0"]


def test_v1s_file_of_init_containers_takes_the_place_of_the_init_container():
    job = a_job("PyTorchJob", name="ddp", master=1, worker=1)
    text = "- {name: wait, image: '{{.InitContainerImage}}', args: ['{{.MasterAddr}}', '{{.MaxTries}}']}"
    job_defaults = JobDefaults(init_image="busybox", init_tries=7, init_template=text)
    expected = {"name": "wait", "image": "busybox", "args": ["ddp-master-0", "7"]}
    assert PYTORCH.hooks.init_containers(job, Replica("Worker", 0), job_defaults) == (expected,)
    assert PYTORCH.hooks.init_containers(job, Replica("Master", 0), job_defaults) == ()


METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
FULL = {
    "rdzvBackend": "etcd-v2",
    "rdzvHost": "localhost",
    "rdzvPort": 1234,
    "rdzvId": "rdzv-id",
    "rdzvConf": [{"key": "b", "value": "2"}, {"key": "a", "value": "x=y"}],
    "standalone": True,
    "nProcPerNode": 2,
    "maxRestarts": 0,
    "minReplicas": 1,
    "maxReplicas": 3,
}
OWN = "PYTHONUNBUFFERED=1"
AUTO = "PET_NPROC_PER_NODE=auto"


def ranks(host, rank, size):
    """Return the variables of a job that has a replica of rank 0."""
    return [
        "MASTER_PORT=23456",
        "PET_MASTER_PORT=23456",
        f"MASTER_ADDR={host}",
        f"PET_MASTER_ADDR={host}",
        f"WORLD_SIZE={size}",
        f"RANK={rank}",
        f"PET_NODE_RANK={rank}",
    ]


def meeting(nodes, endpoint="j-worker-0:23456", backend="c10d"):
    """The variables of a job that meets elastically."""
    return [f"PET_RDZV_ENDPOINT={endpoint}", f"PET_RDZV_BACKEND={backend}", f"PET_NNODES={nodes}"]


@pytest.mark.parametrize(
    ("roles", "spec", "replica", "expected"),
    [
        ({"Master": 1, "Worker": 2}, {}, ("Worker", 1), [OWN, *ranks("j-master-0", 2, 3), AUTO, "PET_NNODES=3"]),
        ({"Master": 1}, {}, ("Master", 0), [OWN, *ranks("j-master-0", 0, 1), AUTO, "PET_NNODES=1"]),
        (
            {"Master": 1, "Worker": 1},
            {"nprocPerNode": "4"},
            ("Worker", 0),
            [OWN, *ranks("j-master-0", 1, 8), "PET_NPROC_PER_NODE=4", "PET_NNODES=2"],
        ),
        (
            {"Master": 1, "Worker": 1},
            {"nprocPerNode": "gpu"},
            ("Master", 0),
            [OWN, *ranks("j-master-0", 0, 2), "PET_NPROC_PER_NODE=gpu", "PET_NNODES=2"],
        ),
        ({"Worker": 2}, {}, ("Worker", 1), [OWN, *ranks("j-worker-0", 1, 2), AUTO, "PET_NNODES=2"]),
        ({"Worker": 2}, {"elasticPolicy": {}}, ("Worker", 1), [OWN, AUTO, *meeting("2:2"), STORE]),
        ({"Worker": 1}, {"elasticPolicy": {"minReplicas": 1}}, ("Worker", 0), [OWN, AUTO, *meeting("1:1"), STORE]),
        ({"Worker": 1}, {"elasticPolicy": {"maxReplicas": 4}}, ("Worker", 0), [OWN, AUTO, *meeting("4:4"), STORE]),
        (
            {"Worker": 2},
            {"elasticPolicy": {"nProcPerNode": 2}},
            ("Worker", 0),
            [OWN, *meeting("2:2"), "PET_NPROC_PER_NODE=2", STORE],
        ),
        (
            {"Worker": 2},
            {"nprocPerNode": "2", "elasticPolicy": {"maxRestarts": 100}},
            ("Worker", 0),
            [OWN, "PET_NPROC_PER_NODE=2", *meeting("2:2"), "PET_MAX_RESTARTS=100", STORE],
        ),
        (
            {"Worker": 2},
            {"elasticPolicy": {"standalone": False, "rdzvConf": [], "rdzvPort": 8080}},
            ("Worker", 0),
            [OWN, AUTO, *meeting("2:2", "j-worker-0:8080"), STORE],
        ),
        (  # v1's texts for what is missing; an empty backend is the default
            {"Worker": 2},
            {"elasticPolicy": {"rdzvBackend": "", "rdzvConf": [{"key": "a"}, {"value": "b"}]}},
            ("Worker", 0),
            [OWN, AUTO, *meeting("2:2"), "PET_RDZV_CONF=a=,=b", STORE],
        ),
        (
            {"Worker": 2},
            {"elasticPolicy": FULL},
            ("Worker", 1),
            [
                OWN,
                *meeting("1:3", "localhost:1234", "etcd-v2"),
                "PET_MAX_RESTARTS=0",
                "PET_NPROC_PER_NODE=2",
                "PET_RDZV_ID=rdzv-id",
                "PET_RDZV_CONF=b=2,a=x=y",
                "PET_STANDALONE=",
                STORE,
            ],
        ),
        (
            {"Master": 1, "Worker": 2},
            {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}},
            ("Worker", 0),
            [OWN, *ranks("j-master-0", 1, 3), AUTO, *meeting("1:3"), STORE],
        ),
    ],
)
def test_a_job_as_it_is_written_becomes_v1s_environment(roles, spec, replica, expected):
    document = pytorchjob("j", **roles)
    document["spec"].update(spec)
    job = parse.job(document, PYTORCH, JobDefaults())
    assert job.problems == ()
    assert env(job, *replica) == expected


def test_an_elastic_jobs_port_is_its_workers():
    document = pytorchjob("j", Worker=1)
    document["spec"]["elasticPolicy"] = {}
    (container,) = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container["ports"] = [{"name": "pytorchjob-port", "containerPort": 8080}]
    assert "PET_RDZV_ENDPOINT=j-worker-0:8080" in env(parse.job(document, PYTORCH, JobDefaults()), "Worker", 0)


@pytest.mark.parametrize(
    "metrics", [[METRIC], [METRIC, {"type": "Pods", "unknown": [None]}], [METRIC, {"many": [""] * 40_000}]]
)
def test_an_elastic_job_with_metrics_wishes_for_v1s_autoscaler(metrics):
    document = pytorchjob("j", Worker=2)
    document["spec"]["elasticPolicy"] = {"maxReplicas": 3, "metrics": metrics}
    (wish,) = PYTORCH.hooks.dependents(parse.job(document, PYTORCH, JobDefaults()), JobDefaults(), PodNames())
    assert (wish.resource, wish.name, wish.shared) == (AUTOSCALERS, "j", False)
    spec = {key: value for key, value in wish.content["spec"].items() if value is not None}
    assert spec == {
        "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j"},
        "minReplicas": 3,
        "maxReplicas": 3,
        "metrics": metrics,
    }


@pytest.mark.parametrize("policy", [None, {}, {"metrics": []}, {"metrics": None}])
def test_without_metrics_there_is_no_autoscaler(policy):
    document = pytorchjob("j", Worker=2)
    document["spec"]["elasticPolicy"] = policy
    assert PYTORCH.hooks.dependents(parse.job(document, PYTORCH, JobDefaults()), JobDefaults(), PodNames()) == ()


@pytest.mark.parametrize(
    ("low", "high", "kind", "bounds"),
    [(0, 3, "Resource", [(1, 3)]), (0, 3, "External", [(0, 3)]), (2, 3, "Pods", [(2, 3)]), (0, 0, "Resource", [])],
)
def test_the_bounds_of_the_autoscaler_are_those_that_the_server_accepts(low, high, kind, bounds):
    job = a_job("PyTorchJob", worker=2, options=elastic(low, high, metrics=({"type": kind},)))
    found = [wish.content["spec"] for wish in PYTORCH.hooks.dependents(job, JobDefaults(), PodNames())]
    assert [(spec["minReplicas"], spec["maxReplicas"]) for spec in found] == bounds

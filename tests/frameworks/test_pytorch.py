"""What `env://` and torchrun read, in v1's order, and what PyTorch needs of restarts."""

from __future__ import annotations

import pytest

from make import a_job, elastic, replace
from trainshed.api.job import Elastic, Member, Options, Scope
from trainshed.api.site import Site
from trainshed.frameworks.pytorch import PYTORCH

STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"


def env(job, role, index):
    """The variables of a member as NAME=value."""
    return [f"{variable.name}={variable.value}" for variable in PYTORCH.environment(job, Site())(Member(role, index))]


def ddp(nproc, **roles):
    return a_job("PyTorchJob", name="ddp", options=Options(nproc_per_node=nproc), **roles)


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
    assert [PYTORCH.leads(job, member) for member in job.members] == [True, False]


def test_the_masters_port_is_the_one_it_names():
    job = ddp("auto", master=1, worker=1)
    groups = tuple(replace(group, port=8080) if group.role == "Master" else group for group in job.replicas)
    assert "MASTER_PORT=8080" in env(replace(job, replicas=groups), "Worker", 0)


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


def test_every_setting_of_the_rendezvous_arrives():
    policy = Elastic(1, 3, "etcd", "localhost", 1234, "rdzv-id", (("a", "1"), ("b", "2")), True, 2, 3)
    job = a_job("PyTorchJob", worker=2, options=Options(elastic=policy))
    assert env(job, "Worker", 0)[1:] == [
        "PET_RDZV_ENDPOINT=localhost:1234",
        "PET_RDZV_BACKEND=etcd",
        "PET_NNODES=1:3",
        "PET_MAX_RESTARTS=3",
        "PET_NPROC_PER_NODE=2",
        "PET_RDZV_ID=rdzv-id",
        "PET_RDZV_CONF=a=1,b=2",
        "PET_STANDALONE=",
        STORE,
    ]


def test_an_elastic_job_with_a_master_gets_both_sets():
    job = a_job("PyTorchJob", master=1, worker=2, options=elastic())
    variables = env(job, "Worker", 0)
    assert "MASTER_ADDR=mnist-master-0" in variables
    assert "PET_NNODES=1:3" in variables


def test_an_elastic_job_without_workers_meets_at_the_usual_port():
    job = a_job("PyTorchJob", master=1, options=elastic())
    assert "PET_RDZV_ENDPOINT=mnist-worker-0:23456" in env(job, "Master", 0)


def test_a_group_starts_whole_unless_it_is_elastic():
    assert PYTORCH.scope(ddp("auto", worker=2)) is Scope.JOB
    assert PYTORCH.scope(a_job("PyTorchJob", worker=2, options=elastic())) is Scope.REPLICA


def test_a_job_of_nobody_has_no_goal_and_no_ranks():
    job = a_job("PyTorchJob")
    assert PYTORCH.goal(job) is None
    assert env(job, "Worker", 0) == ["PYTHONUNBUFFERED=1", "PET_NNODES=0"]


def test_v1s_file_of_init_containers_takes_the_place_of_the_init_container():
    job = a_job("PyTorchJob", name="ddp", master=1, worker=1)
    text = "- {name: wait, image: '{{.InitContainerImage}}', args: ['{{.MasterAddr}}', '{{.MaxTries}}']}"
    site = Site(init_image="busybox", init_tries=7, init_template=text)
    expected = {"name": "wait", "image": "busybox", "args": ["ddp-master-0", "7"]}
    assert PYTORCH.waits(job, Member("Worker", 0), site) == (expected,)
    assert PYTORCH.waits(job, Member("Master", 0), site) == ()

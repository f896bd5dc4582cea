"""The environment of a PaddleJob in v1's order, and its success policy."""

from __future__ import annotations

import pytest

from support.builders import a_job, replace
from trainshed.api.framework import JobDefaults, Quorum, SuccessPolicy
from trainshed.api.job import Replica, RestartScope
from trainshed.frameworks.paddle import PADDLE

COLLECTIVE = a_job("PaddleJob", name="pd", worker=2)
SERVED = a_job("PaddleJob", name="ps", master=2, worker=2)
POD_IP = "POD_IP_DUMMY={'fieldRef': {'fieldPath': 'status.podIP'}}"


def env(job, role, index):
    """The variables of a member as NAME=value, or NAME=source."""
    variables = PADDLE.hooks.environment(job, JobDefaults())(Replica(role, index))
    return [f"{variable.name}={variable.source or variable.value}" for variable in variables]


def listening(job, port):
    """The same job with another port in every role."""
    return replace(job, groups=tuple(replace(group, port=port) for group in job.groups))


@pytest.mark.parametrize(
    ("index", "meeting"),
    [(0, [POD_IP, "PADDLE_MASTER=$(POD_IP_DUMMY):37777"]), (1, ["PADDLE_MASTER=pd-worker-0:37777"])],
)
def test_peers_meet_at_worker_0_which_gets_its_own_ip(index, meeting):
    assert env(listening(COLLECTIVE, 37777), "Worker", index) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=pd",
        "PADDLE_NNODES=2",
        *meeting,
        f"PADDLE_RANK={index}",
    ]


@pytest.mark.parametrize(
    ("role", "index", "meeting", "role_variables"),
    [
        ("Master", 0, [POD_IP, "PADDLE_MASTER=$(POD_IP_DUMMY):8080"], "PADDLE_SERVER_NUM=1"),
        ("Master", 1, ["PADDLE_MASTER=ps-master-0:8080"], "PADDLE_SERVER_NUM=1"),
        ("Worker", 0, ["PADDLE_MASTER=ps-master-0:8080"], "PADDLE_TRAINER_NUM=1"),
        ("Worker", 1, ["PADDLE_MASTER=ps-master-0:8080"], "PADDLE_TRAINER_NUM=1"),
    ],
)
def test_with_a_master_pods_are_servers_and_trainers(role, index, meeting, role_variables):
    assert env(listening(SERVED, 8080), role, index) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=ps",
        "PADDLE_NNODES=4",
        *meeting,
        role_variables,
    ]


def test_the_usual_port_is_v1s():
    assert "PADDLE_MASTER=pd-worker-0:36543" in env(COLLECTIVE, "Worker", 1)


def test_only_the_rank_yields_for_v1_does_not_give_it():
    variables = PADDLE.hooks.environment(COLLECTIVE, JobDefaults())(Replica("Worker", 0))
    assert [variable.name for variable in variables if variable.user_overridable] == ["PADDLE_RANK"]


def test_the_master_decides_or_all_workers():
    assert PADDLE.hooks.success_policy(SERVED) == SuccessPolicy("Master", Quorum.ALL, qualified=False)
    assert PADDLE.hooks.success_policy(COLLECTIVE) == SuccessPolicy("Worker", Quorum.ALL, qualified=True)


def test_only_a_master_leads_and_the_group_starts_whole():
    assert [str(replica) for replica in SERVED.all_replicas if PADDLE.hooks.is_leader(SERVED, replica)] == [
        "master-0",
        "master-1",
    ]
    assert [replica for replica in COLLECTIVE.all_replicas if PADDLE.hooks.is_leader(COLLECTIVE, replica)] == []
    assert PADDLE.hooks.scope(COLLECTIVE) is RestartScope.JOB

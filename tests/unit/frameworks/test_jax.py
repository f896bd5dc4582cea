"""The environment of a JAXJob in v1's order, and its success policy."""

from __future__ import annotations

import pytest

from support.builders import a_job, replace
from trainshed.api.framework import JobDefaults, Quorum, SuccessPolicy
from trainshed.api.job import Replica, RestartScope
from trainshed.frameworks.jax import JAX


def env(job, index):
    """The variables of a worker as NAME=value."""
    return [
        f"{variable.name}={variable.value}"
        for variable in JAX.hooks.environment(job, JobDefaults())(Replica("Worker", index))
    ]


@pytest.mark.parametrize(
    ("name", "workers", "index", "expected"),
    [
        (
            "jx",
            2,
            1,
            [
                "PYTHONUNBUFFERED=1",
                "COORDINATOR_PORT=6666",
                "COORDINATOR_ADDRESS=jx-worker-0",
                "NUM_PROCESSES=2",
                "PROCESS_ID=1",
                "JAX_COORDINATOR_ADDRESS=jx-worker-0:6666",
                "JAX_NUM_PROCESSES=2",
                "JAX_PROCESS_ID=1",
            ],
        ),
        (
            "test-jaxjob",
            1,
            0,
            [
                "PYTHONUNBUFFERED=1",
                "COORDINATOR_PORT=6666",
                "COORDINATOR_ADDRESS=test-jaxjob-worker-0",
                "NUM_PROCESSES=1",
                "PROCESS_ID=0",
                "JAX_COORDINATOR_ADDRESS=test-jaxjob-worker-0:6666",
                "JAX_NUM_PROCESSES=1",
                "JAX_PROCESS_ID=0",
            ],
        ),
    ],
)
def test_each_process_learns_where_the_first_one_is_and_which_it_is_itself(name, workers, index, expected):
    assert env(a_job("JAXJob", name=name, worker=workers), index) == expected


def test_v1s_variables_win_and_ours_yield():
    variables = JAX.hooks.environment(a_job("JAXJob", worker=2), JobDefaults())(Replica("Worker", 0))
    assert [variable.user_overridable for variable in variables] == [False] * 5 + [True] * 3


def test_the_coordinators_port_is_the_one_it_names():
    job = a_job("JAXJob", worker=2)
    job = replace(job, groups=tuple(replace(group, port=1234) for group in job.groups))
    assert {"COORDINATOR_PORT=1234", "JAX_COORDINATOR_ADDRESS=mnist-worker-0:1234"} <= set(env(job, 1))


def test_all_workers_decide_the_first_leads_and_the_group_starts_whole():
    job = a_job("JAXJob", worker=3)
    assert JAX.hooks.success_policy(job) == SuccessPolicy("Worker", Quorum.ALL, qualified=True)
    assert [JAX.hooks.is_leader(job, replica) for replica in job.all_replicas] == [True, False, False]
    assert JAX.hooks.scope(job) is RestartScope.JOB

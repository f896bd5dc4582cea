"""The environment of an XGBoostJob in v1's order, its start order, and its success policy."""

from __future__ import annotations

import pytest

from support.builders import a_job, replace
from trainshed.api.framework import JobDefaults, Quorum, StartOrder, SuccessPolicy
from trainshed.api.job import Replica, RestartScope
from trainshed.frameworks.xgboost import XGBOOST

XGB = a_job("XGBoostJob", name="xgb", master=1, worker=2)


def env(job, role, index):
    """The variables of a member as NAME=value."""
    return [
        f"{variable.name}={variable.value}"
        for variable in XGBOOST.hooks.environment(job, JobDefaults())(Replica(role, index))
    ]


@pytest.mark.parametrize(("role", "index", "rank"), [("Master", 0, 0), ("Worker", 0, 1), ("Worker", 1, 2)])
def test_the_master_is_rank_0_and_the_workers_follow(role, index, rank):
    assert env(XGB, role, index) == [
        "MASTER_PORT=9999",
        "MASTER_ADDR=xgb-master-0",
        "WORLD_SIZE=3",
        f"RANK={rank}",
        "PYTHONUNBUFFERED=1",
        "WORKER_PORT=9999",
        "WORKER_ADDRS=xgb-worker-0,xgb-worker-1",
        "DMLC_TRACKER_URI=xgb-master-0",
        "DMLC_TRACKER_PORT=9999",
        f"DMLC_TASK_ID={rank}",
        "DMLC_NUM_WORKER=3",
    ]


def test_a_master_alone_hears_of_no_workers():
    assert env(a_job("XGBoostJob", name="xgb", master=1), "Master", 0) == [
        "MASTER_PORT=9999",
        "MASTER_ADDR=xgb-master-0",
        "WORLD_SIZE=1",
        "RANK=0",
        "PYTHONUNBUFFERED=1",
        "DMLC_TRACKER_URI=xgb-master-0",
        "DMLC_TRACKER_PORT=9999",
        "DMLC_TASK_ID=0",
        "DMLC_NUM_WORKER=1",
    ]


def test_v1s_variables_win_and_ours_yield():
    variables = XGBOOST.hooks.environment(XGB, JobDefaults())(Replica("Worker", 0))
    assert {variable.name for variable in variables if variable.user_overridable} == {
        "DMLC_TRACKER_URI",
        "DMLC_TRACKER_PORT",
        "DMLC_TASK_ID",
        "DMLC_NUM_WORKER",
    }


def test_each_role_has_its_own_port():
    ports = {"Master": 9991, "Worker": 9992}
    job = replace(XGB, groups=tuple(replace(group, port=ports[group.role]) for group in XGB.groups))
    assert {"MASTER_PORT=9991", "DMLC_TRACKER_PORT=9991", "WORKER_PORT=9992"} <= set(env(job, "Worker", 0))


def test_a_list_of_workers_that_the_kernel_would_refuse_is_refused_with_the_figures():
    job = a_job("XGBoostJob", name="xgb", master=1, worker=9000)
    longest = env(job, "Worker", 0)[6]
    assert longest.startswith("WORKER_ADDRS=xgb-worker-0,")
    (problem,) = XGBOOST.hooks.validate(job, JobDefaults())
    assert f"WORKER_ADDRS for 9001 replicas takes {len(longest) + 1} bytes" in problem
    assert XGBOOST.hooks.validate(XGB, JobDefaults()) == ()


def test_the_master_decides_and_leads_and_the_group_starts_whole():
    assert XGBOOST.hooks.success_policy(XGB) == SuccessPolicy("Master", Quorum.ALL, qualified=False)
    assert [str(replica) for replica in XGB.all_replicas if XGBOOST.hooks.is_leader(XGB, replica)] == ["master-0"]
    assert XGBOOST.hooks.scope(XGB) is RestartScope.JOB


def test_workers_come_after_the_master_for_they_give_up_when_nobody_listens():
    first = StartOrder("Master")
    assert [XGBOOST.hooks.start_after(XGB, replica.role) for replica in XGB.all_replicas] == [None, first, first]

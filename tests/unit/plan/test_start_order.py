"""The start order of roles."""

from __future__ import annotations

from support.builders import a_job, a_pod, seen
from trainshed.api.framework import JobDefaults
from trainshed.plan.facts import Facts
from trainshed.plan.pods import gated_replicas

JOB = a_job("XGBoostJob", master=1, worker=2)


def waiting(*pods, **fields):
    return [str(replica) for replica in sorted(gated_replicas(Facts(seen(JOB, *pods, **fields))))]


def test_the_workers_of_an_xgboost_job_wait_until_their_master_is_ready():
    assert waiting() == ["worker-0", "worker-1"]
    assert waiting(a_pod("master-0", container="xgboost")) == ["worker-0", "worker-1"]
    assert waiting(a_pod("master-0", container="xgboost", ready=True)) == []


def test_nobody_waits_for_one_who_has_ended():
    assert waiting(a_pod("master-0", "Failed", code=1, container="xgboost")) == []


def test_with_a_gang_scheduler_nobody_waits():
    assert waiting(job_defaults=JobDefaults(gang_scheduler="volcano")) == []

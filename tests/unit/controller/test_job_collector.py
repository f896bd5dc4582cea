"""Unfinished jobs have per-job metrics, up to a limit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.builders import T0, a_job, cached
from support.replace import replace
from trainshed.api.status import Condition, ConditionType, ReplicaStatus, Retries, Status
from trainshed.controller import job_collector as module
from trainshed.controller.job_collector import JobCollector
from trainshed.controller.metrics import Metrics
from trainshed.controller.store import CachedJob

NAMES = {"job_namespace": "ml", "kind": "TFJob", "job_name": "mnist"}


def a_record(name: str = "mnist", **status) -> CachedJob:
    return cached(replace(a_job(worker=2), name=name, created=T0), Status(**status))


def shown(*records: CachedJob) -> Metrics:
    metrics = Metrics()
    metrics.register(JobCollector(lambda: records, lambda: T0 + timedelta(seconds=90)))
    return metrics


def test_a_running_job_has_series():
    conditions = (Condition(ConditionType.RUNNING, True, "r", "m", T0, T0),)
    record = a_record(
        conditions=conditions, replica_statuses={"Worker": ReplicaStatus(active=2)}, retries=Retries(used=1)
    )
    value = shown(record).registry.get_sample_value
    assert value("trainshed_job_state", {**NAMES, "state": "Running"}) == 1
    assert value("trainshed_job_age_seconds", NAMES) == 90
    assert value("trainshed_job_active_pods", NAMES) == 2
    assert value("trainshed_job_counted_restarts", NAMES) == 1
    assert value("trainshed_job_metrics_truncated", {}) == 0


@pytest.mark.parametrize("verdict", [ConditionType.SUCCEEDED, ConditionType.FAILED])
def test_a_finished_or_deleted_job_has_no_series(verdict):
    over = a_record(conditions=(Condition(verdict, True, "r", "m", T0, T0),))
    for metrics in (shown(over), shown()):
        assert b"mnist" not in metrics.text()


def test_beyond_the_limit_the_first_jobs_by_name_have_series(monkeypatch):
    monkeypatch.setattr(module, "MAX_JOBS", 2)
    text = shown(*(a_record(name) for name in ("d", "b", "a", "c"))).text().decode()
    assert [name for name in "abcd" if f'job_name="{name}"' in text] == ["a", "b"]
    assert "trainshed_job_metrics_truncated 2.0" in text

"""Metrics with a value in every family, and their names, types and labels."""

from __future__ import annotations

from prometheus_client import Metric

from support.builders import T0, a_job, a_pod, cached, seen
from support.replace import replace
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.client import ApiError
from trainshed.controller.job_collector import JobCollector
from trainshed.controller.metrics import Metrics

GPU = {"spec": {"containers": [{"name": "tensorflow", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}


def all_metrics() -> Metrics:
    """Return the metrics after a job has failed, with the series of jobs."""
    metrics, job = Metrics(), replace(a_job(worker=1), created=T0)
    metrics.register(JobCollector(lambda: [cached(job)], lambda: T0))
    created, failed = (
        Status(conditions=(Condition(kind, True, "r", "m", T0, T0),))
        for kind in (ConditionType.CREATED, ConditionType.FAILED)
    )
    metrics.on_status_stored(seen(job), created)
    metrics.on_reconcile(seen(job, a_pod("worker-0", "Running")))
    metrics.on_status_stored(seen(job), failed)
    metrics.on_status_stored(seen(job), Status(attempts={"Worker": 1}))
    spent = TimeSpent({JobPhase.RUNNING: 60}, JobPhase.RESTART, T0, lost_work=9)
    metrics.on_status_stored(seen(a_job(worker=1, template=GPU)), Status(time_spent=spent))
    metrics.count_error(ApiError("x"))
    metrics.count_request("GET", "pods", 200)
    metrics.count_skipped_event("pods")
    metrics.gauges.ages.labels("pods").set(1)
    metrics.gauges.served.labels("team-a").set(1)
    metrics.gauges.queued_writes.labels("creates").set(0)
    metrics.set_jobs({}, {job.kind: "tensorflow"})
    return metrics


def families() -> dict[str, Metric]:
    """Return all families by the name in queries, without those of the process, which the client library adds."""
    found = all_metrics().registry.collect()
    named = {family.name + ("_total" if family.type == "counter" else ""): family for family in found}
    return {name: family for name, family in named.items() if not name.startswith("process_")}


def labels() -> dict[str, set[str]]:
    """Return the labels of each series, with those of the process."""
    return {sample.name: set(sample.labels) for family in all_metrics().registry.collect() for sample in family.samples}

"""Meters that have something in every family, and what can be told of them: names, types and labels."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import Metric

from support.builders import T0, a_job, seen
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.client import ApiError
from trainshed.controller.job_metrics import JobCollector
from trainshed.controller.metrics import Metrics
from trainshed.controller.store import CachedJob


def all_meters() -> Metrics:
    """As they are once a job has failed, with the series of jobs."""
    metrics, job = Metrics(), replace(a_job(worker=1), created=T0)
    metrics.register(JobCollector(lambda: [CachedJob(job, Status())], lambda: T0))
    failed = Status(conditions=(Condition(ConditionType.FAILED, True, "r", "m", T0, T0),))
    metrics.on_status_stored(seen(job), failed)
    metrics.on_status_stored(seen(job), Status(attempts={"Worker": 1}))
    metrics.observe_startup(seen(job), 1)
    metrics.count_error(ApiError("x"))
    metrics.count_request("GET", "pods", 200)
    metrics.gauges.ages.labels("pods").set(1)
    metrics.gauges.queued_writes.labels("creates").set(0)
    metrics.set_jobs({}, {job.kind: "tensorflow"})
    return metrics


def families() -> dict[str, Metric]:
    """All families by the name that is asked for, but for those of the process, which the client brings."""
    found = all_meters().registry.collect()
    named = {family.name + ("_total" if family.type == "counter" else ""): family for family in found}
    return {name: family for name, family in named.items() if not name.startswith("process_")}


def labels() -> dict[str, set[str]]:
    """The labels of each series, those of the process among them."""
    return {sample.name: set(sample.labels) for family in all_meters().registry.collect() for sample in family.samples}

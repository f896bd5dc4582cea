"""Metrics of each unfinished job, derived from its status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from .store import CachedJob

#: The maximum number of jobs with series of their own; the others are only counted.
MAX_JOBS = 1000
JOB_LABELS = ("job_namespace", "kind", "job_name")


class JobCollector(Collector):
    """The collector of per-job metrics; the series of a job end with the job."""

    def __init__(self, jobs: Callable[[], Iterable[CachedJob]], now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield all series; jobs are sorted by name, so that the same ones are included in each scrape."""
        found = sorted((record for record in self._jobs() if not record.status.over), key=_names)
        now = self._now()
        states = GaugeMetricFamily(
            "trainshed_job_state", "1 for the current state of a job.", labels=(*JOB_LABELS, "state")
        )
        families = [GaugeMetricFamily(name, help_text, labels=JOB_LABELS) for name, help_text, _ in JOB_METRICS]
        for record in islice(found, MAX_JOBS):
            states.add_metric((*_names(record), record.status.current_state), 1)
            for family, (_, _, value) in zip(families, JOB_METRICS, strict=True):
                family.add_metric(_names(record), value(record, now))
        yield from (states, *families)
        beyond = max(0, len(found) - MAX_JOBS)
        yield GaugeMetricFamily(
            "trainshed_job_metrics_truncated", "Jobs without per-job metrics because of the limit.", beyond
        )


def _names(record: CachedJob) -> tuple[str, str, str]:
    return record.job.namespace, record.job.kind, record.job.name


def _age(record: CachedJob, now: datetime) -> float:
    return max(0.0, (now - record.job.created).total_seconds()) if record.job.created else 0.0


def _active(record: CachedJob, _now: datetime) -> float:
    return sum(replica_status.active for replica_status in record.status.replica_statuses.values())


def _counted_restarts(record: CachedJob, _now: datetime) -> float:
    return record.status.retries.used


#: The series of each job besides its state: name, help text and value.
JOB_METRICS: tuple[tuple[str, str, Callable[[CachedJob, datetime], float]], ...] = (
    ("trainshed_job_age_seconds", "Age of a job in seconds.", _age),
    ("trainshed_job_active_pods", "Active pods of a job.", _active),
    ("trainshed_job_counted_restarts", "Restarts of a job that count against its backoffLimit.", _counted_restarts),
)

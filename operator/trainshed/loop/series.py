"""Per-job metrics: computed at each scrape for jobs that have not finished, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from .course import state
from .view import Record

#: The maximum number of jobs with series of their own; the others are only counted.
MOST = 1000
LABELS = ("job_namespace", "kind", "job_name")


class Series(Collector):
    """The collector of per-job metrics; the series of a job end with the job."""

    def __init__(self, jobs: Callable[[], Iterable[Record]], now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield all series; jobs are sorted by name, so that the same ones are included in each scrape."""
        found = sorted((record for record in self._jobs() if not record.status.over), key=_names)
        now = self._now()
        states = GaugeMetricFamily(
            "trainshed_job_state", "1 for the current state of a job.", labels=(*LABELS, "state")
        )
        families = [GaugeMetricFamily(name, help_text, labels=LABELS) for name, help_text, _ in SHOWN]
        for record in islice(found, MOST):
            states.add_metric((*_names(record), state(record.status)), 1)
            for family, (_, _, value) in zip(families, SHOWN, strict=True):
                family.add_metric(_names(record), value(record, now))
        yield from (states, *families)
        beyond = max(0, len(found) - MOST)
        yield GaugeMetricFamily(
            "trainshed_job_series_omitted", "Jobs without per-job metrics because of the limit.", beyond
        )


def _names(record: Record) -> tuple[str, str, str]:
    return record.job.namespace, record.job.kind, record.job.name


def _age(record: Record, now: datetime) -> float:
    return max(0.0, (now - record.job.created).total_seconds()) if record.job.created else 0.0


def _active(record: Record, _now: datetime) -> float:
    return sum(tally.active for tally in record.status.tallies.values())


def _tries(record: Record, _now: datetime) -> float:
    return record.status.retries.used


#: The series of each job besides its state: name, help text and value.
SHOWN: tuple[tuple[str, str, Callable[[Record, datetime], float]], ...] = (
    ("trainshed_job_age_seconds", "Age of a job in seconds.", _age),
    ("trainshed_job_active_pods", "Active pods of a job.", _active),
    ("trainshed_job_tries", "Restarts of a job that count against its backoffLimit.", _tries),
)

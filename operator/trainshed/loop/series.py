"""Series of single jobs, for who wants them: of those that are not over, so many at the most, made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from .course import state
from .view import Record

#: So many jobs have series of their own; of the others only their number is told.
MOST = 1000
LABELS = ("job_namespace", "kind", "job_name")


class Series(Collector):
    """The jobs that are not over, as `jobs` tells them; with a job its series go."""

    def __init__(self, jobs: Callable[[], Iterable[Record]], now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """All series; the jobs in the order of their names, so that the same ones have some at each scrape."""
        found = sorted((record for record in self._jobs() if not record.status.over), key=_names)
        now = self._now()
        states = GaugeMetricFamily(
            "trainshed_job_state", "1 for the current state of a job.", labels=(*LABELS, "state")
        )
        families = [GaugeMetricFamily(name, means, labels=LABELS) for name, means, _ in SHOWN]
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


#: What is shown of each job besides its state: the name of the series, what it means, and its value.
SHOWN: tuple[tuple[str, str, Callable[[Record, datetime], float]], ...] = (
    ("trainshed_job_age_seconds", "Age of a job in seconds.", _age),
    ("trainshed_job_active_pods", "Active pods of a job.", _active),
    ("trainshed_job_tries", "Restarts of a job that count against its backoffLimit.", _tries),
)

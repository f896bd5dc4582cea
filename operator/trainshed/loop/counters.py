"""v1's counters: one set for each namespace and framework, served while it has jobs and some minutes longer."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter

LABELS = ("job_namespace", "framework")
#: v1's counters, without the `_total` that the client library adds, and their help texts.
COUNTERS = {
    "training_operator_jobs_created": "Jobs created: the operator stored their first status.",
    "training_operator_jobs_deleted": "Jobs deleted because ttlSecondsAfterFinished expired.",
    "training_operator_jobs_successful": "Jobs that succeeded.",
    "training_operator_jobs_failed": "Jobs that failed for any reason.",
    "training_operator_jobs_restarted": "Restarts of jobs or of some of their pods by the operator.",
    "created_pods": "Pods created by the operator.",
    "deleted_pods": "Pods deleted by the operator.",
    "failed_pods": "Pods that failed.",
    "succeeded_service_creation": "Services created by the operator.",
    "failed_service_creation": "Failed attempts to create a Service.",
    "created_pod_groups": "PodGroups created by the operator.",
    "deleted_pod_groups": "PodGroups deleted by the operator.",
}


class Home(NamedTuple):
    """A namespace and a framework (as in the metric label) whose jobs share one set of counters."""

    namespace: str
    framework: str


class Counters:
    """All twelve counters for each home with jobs now or recently; the number of namespaces over time is unbounded."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._all = {name: Counter(name, help_text, LABELS, registry=own) for name, help_text in COUNTERS.items()}
        self._homes: dict[Home, dict[str, Counter]] = {}
        self._empty: set[Home] = set()

    def count(self, home: Home, name: str, by: int = 1) -> None:
        """Add `by` to a counter; 0 only creates the series.

        The first call for a home creates all its counters, because `increase` needs a series that starts at 0.
        """
        found = self._homes.get(home)
        if found is None:
            found = self._homes[home] = {name: counter.labels(*home) for name, counter in self._all.items()}
        self._empty.discard(home)
        if by:
            found[name].inc(by)

    def forget(self, inhabited: set[Home]) -> None:
        """Remove the homes without jobs now and at the previous call and without a count in between."""
        for home in self._empty - inhabited:
            del self._homes[home]
            for counter in self._all.values():
                counter.remove(*home)
        self._empty = self._homes.keys() - inhabited

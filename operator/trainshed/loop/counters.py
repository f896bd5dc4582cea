"""v1's counters: a set for each namespace and framework, shown as long as there are jobs and a while after the last."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter

LABELS = ("job_namespace", "framework")
#: v1's counters, without the `_total` that the client adds, and what each means.
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
    """Where jobs are counted together; the framework is the meters' word for it."""

    namespace: str
    framework: str


class Counters:
    """All twelve for each home that has, or had a while ago, a job: a cluster may see no end of namespaces."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._all = {name: Counter(name, told, LABELS, registry=own) for name, told in COUNTERS.items()}
        self._homes: dict[Home, dict[str, Counter]] = {}
        self._empty: set[Home] = set()

    def count(self, home: Home, name: str, by: int = 1) -> None:
        """Something has happened, or may now: all of a home's are shown from its first, for only a rise can be seen."""
        found = self._homes.get(home)
        if found is None:
            found = self._homes[home] = {name: counter.labels(*home) for name, counter in self._all.items()}
        self._empty.discard(home)
        if by:
            found[name].inc(by)

    def forget(self, inhabited: set[Home]) -> None:
        """Let go of each home that had no job when this was last asked, has none now, and where nothing was counted."""
        for home in self._empty - inhabited:
            del self._homes[home]
            for counter in self._all.values():
                counter.remove(*home)
        self._empty = self._homes.keys() - inhabited

"""Counts the seconds of jobs and of their devices in each phase, as statuses with them are stored."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from trainshed.api.actions import Snapshot
from trainshed.api.status import Status
from trainshed.api.time_spent import GOODPUT_CLASSES, LOST_WORK_CLASS, WAITING, JobPhase
from trainshed.fit.amounts import UNIT, Amounts, times, total
from trainshed.fit.demands import pod_amounts

#: The largest number of resources with series of their own: users may ask for resources of any name.
MAX_RESOURCES, OTHERS = 16, "other"


class SpentTime:
    """The counters of time; a phase is counted when it is over, once, by the process that stores that it is."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._resources: set[str] = set()
        self._seconds = Counter(
            "trainshed_job_phase_seconds",
            "Seconds that jobs have spent in phases that are over.",
            ("framework", "phase", "class"),
            registry=own,
        )
        self._resource_seconds = Counter(
            "trainshed_job_resource_seconds",
            "Seconds of each extended resource that jobs had asked for, in phases that are over.",
            ("framework", "resource", "phase", "class"),
            registry=own,
        )

        self._lost_work = Counter(
            "trainshed_job_lost_work_seconds",
            "Seconds of training that was done again after restarts, of jobs whose steps are known.",
            ("framework", "class"),
            registry=own,
        )

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Count the phases that the stored status has more of than the one before."""
        before, now, label = snapshot.status.time_spent.seconds, after.time_spent.seconds, snapshot.framework.label
        lost = after.time_spent.lost_work - snapshot.status.time_spent.lost_work
        self._lost_work.labels(label, LOST_WORK_CLASS).inc(max(0, lost))
        for phase, seconds in now.items():
            if (more := seconds - before.get(phase, 0)) <= 0:
                continue
            self._seconds.labels(label, phase, GOODPUT_CLASSES.get(phase, "")).inc(more)
            for resource, amount in _devices(snapshot).items() if phase not in WAITING else ():
                labels = label, self._bounded(resource), phase, GOODPUT_CLASSES.get(phase, "")
                self._resource_seconds.labels(*labels).inc(more * amount / UNIT)

    def begin(self, label: str) -> None:
        """Create the series of a framework at 0, because `increase` needs a series that starts at 0."""
        self._lost_work.labels(label, LOST_WORK_CLASS)
        for phase in JobPhase:
            self._seconds.labels(label, phase, GOODPUT_CLASSES.get(phase, ""))

    def _bounded(self, resource: str) -> str:
        if len(self._resources) < MAX_RESOURCES:
            self._resources.add(resource)
        return resource if resource in self._resources else OTHERS


def _devices(snapshot: Snapshot) -> Amounts:
    """Return the extended resources that all replicas of a job request: their names have the domain of a vendor."""
    groups = snapshot.job.groups
    found = total(times(pod_amounts(group.template.get("spec") or {}, "requests"), group.count) for group in groups)
    return {name: amount for name, amount in found.items() if "/" in name and amount}

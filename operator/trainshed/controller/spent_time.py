"""Counts the seconds of jobs and of their devices in each phase, as statuses with them are stored."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter

from trainshed.api.actions import Snapshot
from trainshed.api.job import Job, JobKey
from trainshed.api.status import Status
from trainshed.api.time_spent import GOODPUT_CLASSES, LOST_WORK_CLASS, WAITING, JobPhase, TimeSpent
from trainshed.fit.amounts import UNIT
from trainshed.fit.demands import devices

#: The largest number of resources with series of their own: users may ask for resources of any name.
MAX_RESOURCES, OTHERS = 16, "other"


class SpentTime:
    """The counters of time; a phase is counted when it is over, once, by the process that stores that it is.

    The last phase of a job that is deleted is over then.
    """

    def __init__(self, own: CollectorRegistry) -> None:
        self._resources: set[str] = set()
        #: The jobs that are in a phase, with the label of their framework and their time until then.
        self._open: dict[JobKey, tuple[Job, str, TimeSpent]] = {}
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
        self._lost_resources = Counter(
            "trainshed_job_lost_work_resource_seconds",
            "Seconds of each extended resource that jobs had asked for, in training that was done again.",
            ("framework", "resource", "class"),
            registry=own,
        )

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Count the phases that the stored status has more of than the one before."""
        self._count((snapshot.job, snapshot.framework.label, snapshot.status.time_spent), after.time_spent)
        self._remember(snapshot, after.time_spent)

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Remember in which phase the job is."""
        self._remember(snapshot, snapshot.status.time_spent)

    def forget(self, key: JobKey, now: datetime) -> None:
        """Count the last phase of a deleted job, if it was in one."""
        if known := self._open.pop(key, None):
            self._count(known, known[2].until(now))

    def step_down(self) -> None:
        """Forget all jobs: another replica counts now."""
        self._open.clear()

    def _remember(self, snapshot: Snapshot, spent: TimeSpent) -> None:
        if spent.phase:
            self._open[snapshot.job.key] = snapshot.job, snapshot.framework.label, spent
        else:
            self._open.pop(snapshot.job.key, None)

    def _count(self, known: tuple[Job, str, TimeSpent], now: TimeSpent) -> None:
        job, label, before = known
        held = devices(job) if now != before else {}
        if (lost := now.lost_work - before.lost_work) > 0:
            self._lost_work.labels(label, LOST_WORK_CLASS).inc(lost)
            for resource, amount in held.items():
                self._lost_resources.labels(label, self._bounded(resource), LOST_WORK_CLASS).inc(lost * amount / UNIT)
        for phase, seconds in now.seconds.items():
            if (more := seconds - before.seconds.get(phase, 0)) <= 0:
                continue
            self._seconds.labels(label, phase, GOODPUT_CLASSES.get(phase, "")).inc(more)
            for resource, amount in held.items() if phase not in WAITING else ():
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

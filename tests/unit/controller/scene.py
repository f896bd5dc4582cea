"""The operator in virtual time beside webhooks and other clients that change what it writes."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import count

from support.audit import api_fields
from support.harness import Harness
from support.jobs import job
from support.virtual_time import now
from support.world import KINDS
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import AUTOSCALERS, CONFIG_MAPS, ROLES, VOLCANO_GROUPS, Resource
from trainshed.controller.workqueue import Worker, WorkQueue

TRACKED = {"trainshed.dev/track-results": "true"}
LABEL = "training.kubeflow.org/operator-name"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
ELASTIC = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "metrics": [CPU]}}
CASES = [
    (CONFIG_MAPS, "MPIJob", {"Launcher": 1, "Worker": 1}, {}),
    (ROLES, "MPIJob", {"Launcher": 1, "Worker": 1}, {}),
    (AUTOSCALERS, "PyTorchJob", {"Worker": 2}, ELASTIC),
    (VOLCANO_GROUPS, "TFJob", {"Worker": 2}, {}),
]


class Scene(Harness):
    """A cluster in which the operator acts, and `react` is called each 20 ms."""

    def __init__(self, kind: str, roles: dict[str, int], spec: dict | None = None, **job_defaults) -> None:
        super().__init__(job_defaults=JobDefaults(**job_defaults))
        self.key = JobKey("ml", kind, "mnist")
        self.world.submit(kind, "mnist", {**job(kind, "mnist", **roles)["spec"], **(spec or {})}, TRACKED)
        self.queue = WorkQueue(lambda _seconds: None)
        self.worker = Worker(self.queue, {"": self.reconciler}, self.metrics, lambda: True, self._moment)
        self.react = lambda: None

    def _moment(self) -> datetime:
        self.world.now = now()
        return self.world.now

    def stored(self) -> dict:
        return self.world.get(KINDS[self.key.kind].plural)

    def set_status(self, status: dict) -> None:
        plural = KINDS[self.key.kind].plural
        self.world.replace(plural, "mnist", lambda job: job.update(status=status), "status")

    def blocked(self) -> dict | None:
        """Return the condition Blocked of the job, if it is true."""
        found = api_fields.conditions(self.stored()["status"])
        return next((one for one in found if (one["type"], one["status"]) == ("Blocked", "True")), None)

    async def last(self, seconds: float, write: str) -> int:
        """Let the operator act for this time; return the number of its writes that begin like this."""
        mark = len(self.world.writes)
        for _ in range(round(seconds * 50)):
            self.react()
            self.hear()
            while self.woken:
                self.queue.add(self.woken.pop())
            await asyncio.sleep(0.02)
        return sum(found.startswith(write) for found in self.since(mark))


class Webhooks(Scene):
    """A scene in which from `reverts` on a webhook removes a label of the resource at each write."""

    def __init__(self, resource: Resource, kind: str, roles: dict[str, int], spec: dict) -> None:
        super().__init__(kind, roles, spec, gang_scheduler="volcano" if resource is VOLCANO_GROUPS else "")
        self.resource, self.reverts, self._stamps = resource, False, count()
        self._update = self.world.update_dependent
        self.world.update_dependent = self._admit

    async def _admit(self, resource: Resource, namespace: str, name: str, patch: dict) -> object:
        await self._update(resource, namespace, name, patch)
        if resource is self.resource and self.reverts:
            self.revert()
        return self.world.dependent(resource, name)

    def revert(self) -> None:
        """Remove the label, and set an annotation to another value; a PodGroup has been admitted."""
        (name,) = self.world.names(self.resource.plural)
        if self.resource is VOLCANO_GROUPS:
            self.world.replace(VOLCANO_GROUPS, name, lambda group: group.update(status={"phase": "Running"}), "status")
        changed = {"labels": {LABEL: None}, "annotations": {"stamp": str(next(self._stamps))}}
        self.world.patch(self.resource, name, changed)

"""A webhook that reverts updates of a ConfigMap, Role, PodGroup or autoscaler causes no endless writes."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from support.audit import api_fields
from support.harness import Harness
from support.jobs import job
from support.replace import replace
from support.virtual_time import in_virtual_time, now
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import AUTOSCALERS, CONFIG_MAPS, ROLES, VOLCANO_GROUPS, Resource
from trainshed.controller.workqueue import Worker, WorkQueue

LABEL = "training.kubeflow.org/operator-name"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
ELASTIC = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "metrics": [CPU]}}
CASES = [
    (CONFIG_MAPS, "MPIJob", {"Launcher": 1, "Worker": 1}, {}),
    (ROLES, "MPIJob", {"Launcher": 1, "Worker": 1}, {}),
    (AUTOSCALERS, "PyTorchJob", {"Worker": 2}, ELASTIC),
    (VOLCANO_GROUPS, "TFJob", {"Worker": 2}, {}),
]


class Webhooks(Harness):
    """A cluster and its operator; from `changes` on a webhook removes a label of the resource at each write."""

    def __init__(self, resource: Resource, kind: str, roles: dict[str, int], spec: dict) -> None:
        super().__init__(job_defaults=JobDefaults(gang_scheduler="volcano" if resource is VOLCANO_GROUPS else ""))
        self.resource, self.reverts, self._stamps = resource, False, count()
        self.key, self._update = JobKey("ml", kind, "mnist"), self.world.update_dependent
        self.world.update_dependent = self._admit
        self.world.submit(kind, "mnist", {**job(kind, "mnist", **roles)["spec"], **spec})
        self.queue = WorkQueue(lambda _seconds: None)
        self.worker = Worker(self.queue, {"": self.reconciler}, self.metrics, lambda: True, now)

    async def _admit(self, resource: Resource, namespace: str, name: str, patch: dict) -> object:
        await self._update(resource, namespace, name, patch)
        if resource is self.resource and self.reverts:
            self.revert()
        return self.world.dependents[resource, name]

    def revert(self) -> None:
        """Remove the label, and set an annotation to another value; a PodGroup has been admitted."""
        ((key, found),) = [item for item in self.world.dependents.items() if item[0][0] is self.resource]
        metadata = found.document["metadata"]
        labels = {name: value for name, value in metadata["labels"].items() if name != LABEL}
        changed = {"labels": labels, "annotations": {**metadata["annotations"], "stamp": str(next(self._stamps))}}
        document = {**found.document, "metadata": {**metadata, **changed}, "status": {"phase": "Running"}}
        self.world.dependents[key] = replace(found, version=str(self.world._tick()), document=document)
        self.world._news.append(("changed", self.resource, self.world.dependents[key]))

    def blocked(self) -> dict | None:
        """Return the condition Blocked of the job, if it is true."""
        found = api_fields.conditions(self.world.jobs[self.key.kind, "mnist"]["status"])
        return next((one for one in found if (one["type"], one["status"]) == ("Blocked", "True")), None)

    async def last(self, seconds: float) -> int:
        """Let the operator act for this time; return the number of its writes to such objects."""
        mark = len(self.world.writes)
        for _ in range(round(seconds * 50)):
            self.hear()
            while self.woken:
                self.queue.add(self.woken.pop())
            await asyncio.sleep(0.02)
        return sum(write.startswith(f"patch {self.resource.plural}") for write in self.since(mark))


@pytest.mark.parametrize(("resource", "kind", "roles", "spec"), CASES, ids=[case[0].plural for case in CASES])
def test_a_dependent_whose_update_is_reverted_is_tried_again_with_back_off(resource, kind, roles, spec):
    async def story() -> None:
        scene = Webhooks(resource, kind, roles, spec)
        task = asyncio.create_task(scene.worker.run())
        await scene.last(5)
        scene.revert()
        assert await scene.last(5) == 1, "one update is enough where no webhook reverts it"
        assert scene.blocked() is None

        scene.reverts = True
        scene.revert()
        assert 2 <= await scene.last(100) <= 12
        blocked = scene.blocked()
        assert blocked["reason"] == "AlteredOnUpdate"
        assert f"{resource.kind} mnist" in blocked["message"]

        pods = len(scene.world.made)
        scene.world.confirm_deletion(scene.world.made[-1])
        await scene.last(25)
        assert len(scene.world.made) == pods + 1, "other actions do not wait for it"

        scene.reverts = False
        assert await scene.last(25) == 1
        assert scene.blocked() is None
        task.cancel()

    in_virtual_time(story())

"""The reconciler with its cache and a cluster, for the unit tests of the controller: no loop, no queue."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from support.audit import api_fields
from support.world import NAMESPACE, World
from trainshed.api.actions import Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.client.informer import Informer
from trainshed.controller.cache import Cache
from trainshed.controller.events import EventRecorder
from trainshed.controller.metrics import Metrics
from trainshed.controller.namespaces import make_informers
from trainshed.controller.reconciler import Reconciler, Result
from trainshed.frameworks import FRAMEWORKS

KEY = JobKey("ml", "TFJob", "mnist")
CONTAINER = {"name": "tensorflow", "image": "x"}


def a_spec(*, policy: dict | None = None, restart: str = "Never", **roles: int) -> dict:
    """Return the spec of a TFJob with these numbers of replicas, by role."""
    template = {"spec": {"containers": [CONTAINER]}}
    group = {"restartPolicy": restart, "template": template}
    replicas = {role: {**group, "replicas": count} for role, count in roles.items()}
    return {"tfReplicaSpecs": replicas, "runPolicy": policy or {}}


class Harness:
    """A reconciler with its cache and a cluster; watch events arrive at `hear`, answers to writes at once."""

    def __init__(
        self, spec: dict | None = None, job_defaults: JobDefaults | None = None, world: World | None = None
    ) -> None:
        self.world = world or World()
        self.woken: list[JobKey] = []
        self.view = Cache(FRAMEWORKS, job_defaults or JobDefaults(), self.woken.append)
        self.metrics = Metrics()
        self.recorder = EventRecorder(self.world, lambda: None, self.now)
        self.reconciler = Reconciler(self.world, self.view, self.recorder, self.metrics)
        self._lines: list[tuple[Informer, bytes]] = []
        for informer in make_informers(self.world.rest, self.view, FRAMEWORKS, NAMESPACE):
            self.world.server.watch(str(informer._path), informer._selector, partial(self._put, informer))
        if spec:
            self.world.submit("TFJob", "mnist", spec)
            self.hear()

    def _put(self, informer: Informer, line: bytes) -> None:
        self._lines.append((informer, line))

    def now(self) -> datetime:
        return self.world.now

    def hear(self, *without: str) -> None:
        """Deliver all watch events but those of some resources, which arrive later."""
        lines, self._lines = self._lines, []
        for informer, line in lines:
            if informer.plural in without:
                self._put(informer, line)
            else:
                informer._handle(line)

    def hear_one(self) -> bool:
        """Deliver the next watch event; return False if there is none."""
        if not self._lines:
            return False
        informer, line = self._lines.pop(0)
        informer._handle(line)
        return True

    def lose_events(self) -> None:
        """Deliver none of the watch events that have not arrived."""
        self._lines.clear()

    async def reconcile(self, times: int = 1, *, seconds: float = 0, deaf: bool = False) -> Result:
        """Reconcile `times` times, each after `seconds`, and deliver the events unless `deaf`; the last outcome."""
        outcome = Result()
        for _ in range(times):
            self.world.now += timedelta(seconds=seconds)
            outcome = await self.reconciler.reconcile(KEY, self.world.now)
            if not deaf:
                self.hear()
        return outcome

    async def run_all(self) -> None:
        """Let all pods run, and store the status that follows."""
        await self.reconcile(2)
        for name in self.world.pods:
            self.world.set_pod(name, "Running")
        self.hear()
        await self.reconcile(4, seconds=1)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the job as the next reconcile gets it."""
        found = self.view.snapshot(KEY, self.world.now)
        assert found is not None
        return found

    def job(self) -> dict:
        return self.world.get("tfjobs")

    def states(self) -> list[str]:
        """Return the types of the stored conditions that are true."""
        conditions = api_fields.conditions(self.job().get("status", {}))
        return [condition["type"] for condition in conditions if condition["status"] == "True"]

    def since(self, mark: int) -> list[str]:
        """Return the writes after the first `mark`."""
        return self.world.writes[mark:]


async def group_with_one_hidden() -> Harness:
    """Return a job that runs and restarts as a whole, and one pod of which has just lost its label."""
    harness = Harness()
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=2), {"trainshed.dev/restart-scope": "Job"})
    harness.hear()
    await harness.run_all()
    harness.world.hide("mnist-worker-0")
    harness.hear()
    return harness

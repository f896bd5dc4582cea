"""The reconciler with its cache and a fake cluster, for the unit tests of the controller: no loop, no queue."""

from __future__ import annotations

from datetime import datetime, timedelta

from support.audit import api_fields
from support.fake_client import KINDS, World
from trainshed.api.actions import Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.controller.cache import Cache
from trainshed.controller.events import EventRecorder
from trainshed.controller.metrics import Metrics
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
    """A reconciler with its cache and a fake cluster; watch events arrive at `hear`, answers to writes at once."""

    def __init__(
        self, spec: dict | None = None, job_defaults: JobDefaults | None = None, world: World | None = None
    ) -> None:
        self.world = world or World()
        self.woken: list[JobKey] = []
        self.view = Cache(FRAMEWORKS, job_defaults or JobDefaults(), self.woken.append)
        self.metrics = Metrics()
        self.recorder = EventRecorder(self.world, lambda: None, self.now)
        self.reconciler = Reconciler(self.world, self.view, self.recorder, self.metrics)
        if spec:
            self.world.submit("TFJob", "mnist", spec)
            self.hear()

    def now(self) -> datetime:
        """Return the time of the cluster."""
        return self.world.now

    def hear(self) -> None:
        """Deliver all watch events."""
        for event in self.world.news():
            self.take_in(*event)

    def take_in(self, what: str, kind: str, item: object) -> None:
        """Deliver one watch event."""
        if kind in KINDS:
            getattr(self.view.jobs[kind], what)(self.view.record(item, KINDS[kind]))
        else:
            store = getattr(self.view, kind) if isinstance(kind, str) else self.view.dependents[kind]
            getattr(store.store, what)(item)

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
        for pod in list(self.world.pods.values()):
            self.world.set_pod(pod.name, "Running", ready=True)
        self.hear()
        await self.reconcile(4, seconds=1)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the job as the next reconcile gets it."""
        found = self.view.snapshot(KEY, self.world.now)
        assert found is not None
        return found

    def job(self) -> dict:
        """Return the job as the cluster has it."""
        return self.world.jobs["TFJob", "mnist"]

    def states(self) -> list[str]:
        """Return the types of the stored conditions that are true."""
        conditions = api_fields.conditions(self.job().get("status", {}))
        return [condition["type"] for condition in conditions if condition["status"] == "True"]

    def since(self, mark: int) -> list[str]:
        """Return the writes after the first `mark`."""
        return self.world.writes[mark:]


class Weak:
    """Lets the next `times` calls of a method of the fake cluster fail."""

    def __init__(self, world, verb: str, error: Exception, times: int = 1) -> None:
        self._call, self._error, self.times = getattr(world, verb), error, times
        setattr(world, verb, self)

    async def __call__(self, *arguments):
        if self.times > 0:
            self.times -= 1
            raise self._error
        return await self._call(*arguments)


async def group_with_one_hidden() -> Harness:
    """Return a job that runs and restarts as a whole, and one pod of which has just lost its label."""
    harness = Harness()
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=2), {"trainshed.dev/restart-scope": "Job"})
    harness.hear()
    await harness.run_all()
    harness.world.hide("mnist-worker-0")
    harness.hear()
    return harness

"""One operator without its loop: a cluster in the hand, a view of it, and a reconciler that looks when told to."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainshed.api.site import Site
from trainshed.api.snapshot import Snapshot
from trainshed.frameworks import FRAMEWORKS
from trainshed.loop.metrics import Metrics
from trainshed.loop.reconcile import Outcome, Reconciler
from trainshed.loop.recorder import Recorder
from trainshed.loop.view import Key, View
from world import KINDS, World

KEY = Key("ml", "TFJob", "mnist")
CONTAINER = {"name": "tensorflow", "image": "x"}


def a_spec(*, policy: dict | None = None, restart: str = "Never", **roles: int) -> dict:
    """The spec of a TFJob with so many replicas of each role."""
    template = {"spec": {"containers": [CONTAINER]}}
    group = {"restartPolicy": restart, "template": template}
    replicas = {role: {**group, "replicas": count} for role, count in roles.items()}
    return {"tfReplicaSpecs": replicas, "runPolicy": policy or {}}


class Office:
    """What a cluster would tell is heard when the test says so; until then only the answers to writes are known."""

    def __init__(self, spec: dict | None = None, site: Site | None = None, world: World | None = None) -> None:
        self.world = world or World()
        self.woken: list[Key] = []
        self.view = View(FRAMEWORKS, site or Site(), self.woken.append)
        self.metrics = Metrics()
        self.recorder = Recorder(self.world, lambda: None, self.now)
        self.reconciler = Reconciler(self.world, self.view, self.recorder, self.metrics)
        if spec:
            self.world.submit("TFJob", "mnist", spec)
            self.hear()

    def now(self) -> datetime:
        """What the cluster's clock shows."""
        return self.world.now

    def hear(self) -> None:
        """The watches tell what has happened."""
        for told in self.world.news():
            self.take_in(*told)

    def take_in(self, what: str, kind: str, item: object) -> None:
        """A watch tells of one thing that has happened."""
        if kind in KINDS:
            getattr(self.view.jobs[kind], what)(self.view.record(item, KINDS[kind]))
        else:
            store = getattr(self.view, kind) if isinstance(kind, str) else self.view.dependents[kind]
            getattr(store.store, what)(item)

    async def look(self, times: int = 1, *, seconds: float = 0, deaf: bool = False) -> Outcome:
        """Look so often, with so many seconds before each, and hear what came of it; the last outcome."""
        outcome = Outcome()
        for _ in range(times):
            self.world.now += timedelta(seconds=seconds)
            outcome = await self.reconciler.look(KEY, self.world.now)
            if not deaf:
                self.hear()
        return outcome

    async def run_all(self) -> None:
        """Every pod runs, and all that is to say about it is stored."""
        await self.look(2)
        for pod in list(self.world.pods.values()):
            self.world.set_pod(pod.name, "Running", ready=True)
        self.hear()
        await self.look(4, seconds=1)

    def snapshot(self) -> Snapshot:
        """What a look would see."""
        found = self.view.snapshot(KEY, self.world.now)
        assert found is not None
        return found

    def job(self) -> dict:
        """The job as the cluster has it."""
        return self.world.jobs["TFJob", "mnist"]

    def states(self) -> list[str]:
        """The conditions that are stored and true."""
        conditions = self.job().get("status", {}).get("conditions", [])
        return [condition["type"] for condition in conditions if condition["status"] == "True"]

    def since(self, mark: int) -> list[str]:
        """The writes after the first so many."""
        return self.world.writes[mark:]


class Weak:
    """Fails the next so many calls of one verb of a world."""

    def __init__(self, world, verb: str, error: Exception, times: int = 1) -> None:
        self._call, self._error, self.times = getattr(world, verb), error, times
        setattr(world, verb, self)

    async def __call__(self, *arguments):
        if self.times > 0:
            self.times -= 1
            raise self._error
        return await self._call(*arguments)


async def group_with_one_hidden() -> Office:
    """A job that runs and restarts as a whole, one of whose pods has just lost its label."""
    office = Office()
    office.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=2), {"trainshed.dev/restart-scope": "Job"})
    office.hear()
    await office.run_all()
    office.world.hide("mnist-worker-0")
    office.hear()
    return office

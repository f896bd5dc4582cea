"""A random job's life in a world of its own, and the laws that hold at each of its steps."""

from __future__ import annotations

from random import Random

from laws import EXCLUSIVE, MOVES, seats
from make import states
from trainshed.api import read
from trainshed.api.pod import Phase
from trainshed.api.site import Site
from trainshed.frameworks import MPI_VERSIONS, served
from trainshed.loop.metrics import Metrics
from trainshed.loop.reconcile import Reconciler
from trainshed.loop.recorder import Recorder
from trainshed.loop.view import Key, View
from world import World
from writes import Crash

NAME = "job"
#: A node that does not answer any more: nobody says that its pods are gone.
LOST = "lost"
#: The roles that a random job of a kind may have, and those that it must.
ROLES = {
    "TFJob": (("Chief", "PS", "Worker"), ()),
    "PyTorchJob": (("Master", "Worker"), ()),
    "XGBoostJob": (("Worker",), ("Master",)),
    "PaddleJob": (("Master", "Worker"), ()),
    "JAXJob": ((), ("Worker",)),
    "MPIJob": (("Worker",), ("Launcher",)),
}
#: Where it is others who decide, they may do without workers.
MAY_HAVE_NO_WORKERS = ("TFJob", "XGBoostJob", "PaddleJob")


class Life:
    """One random job's life, and the operator's."""

    def __init__(self, random: Random, site: Site | None = None) -> None:
        self.random = random
        self.site = site or Site(keep_results=True)
        self.world = World()
        self.kind = random.choice(list(ROLES))
        self.frameworks = served(random.choice(list(MPI_VERSIONS)))
        self.key = Key("ml", self.kind, NAME)
        self.countable = 0
        self.last_state = ""
        self.verdict: dict | None = None
        self.born = 0
        self.world.submit(self.kind, NAME, self.spec(), self.annotations())
        self.begin()

    def begin(self) -> None:
        """The operator starts, knowing nothing."""
        self.world.dead, self.world.dies_in = False, -1
        self.view = View(self.frameworks, self.site, lambda _key: None)
        self.world.news()
        for known in self.frameworks:
            records = [self.view.record(job, known) for (of, _), job in self.world.jobs.items() if of == known.kind]
            self.view.jobs[known.kind].replaced(records, str(self.world.version))
        self.view.pods.store.replaced(list(self.world.pods.values()), str(self.world.version))
        self.view.services.store.replaced(list(self.world.services.values()), str(self.world.version))
        for resource, children in self.view.dependents.items():
            there = [found for (kind, _), found in self.world.dependents.items() if kind is resource]
            children.store.replaced(there, str(self.world.version))
        self.reconciler = Reconciler(
            self.world, self.view, Recorder(self.world, lambda: None, lambda: self.world.now), Metrics()
        )

    def hear(self) -> None:
        """The watches tell what has happened."""
        for what, kind, item in self.world.news():
            if kind == self.kind:
                getattr(self.view.jobs[kind], what)(self.view.record(item, self.framework))
            else:
                store = getattr(self.view, kind) if isinstance(kind, str) else self.view.dependents[kind]
                getattr(store.store, what)(item)

    async def look(self) -> None:
        """One look, which the operator may not survive."""
        try:
            await self.reconciler.look(self.key, self.world.now)
        except Crash:
            self.begin()

    def spec(self) -> dict:
        """A random job."""
        choose = self.random.choice
        policy = {"cleanPodPolicy": choose(["None", "Running", "All"])}
        if choose([True, False]):
            policy["backoffLimit"] = choose([0, 1, 3])
        perhaps, surely = ROLES[self.kind]
        roles = [*surely, *(role for role in perhaps if choose([1, 1, 0]))]
        wanted = {role: 1 if role in ("Chief", "Master", "Launcher") else choose([1, 2, 3]) for role in roles}
        if not set(wanted) & {"Chief", "Master", "Launcher", "Worker"}:
            wanted["Worker"] = 2  # somebody has to decide
        field = self.framework.field
        container = {"name": self.framework.container.name, "image": "x"}
        restart = choose(["Never", "OnFailure", "ExitCode", "Always"])
        groups = {
            role: {"replicas": count, "restartPolicy": restart, "template": {"spec": {"containers": [container]}}}
            for role, count in wanted.items()
        }
        return {"runPolicy": policy, field: groups} | self.growth(wanted)

    def growth(self, wanted: dict) -> dict:
        """How a job of a kind that can may grow: by an autoscaler, or by workers that nobody waits for."""
        if self.kind == "PyTorchJob" and "Worker" in wanted:
            return {"elasticPolicy": {"metrics": self.random.choice([[], [{"type": "Resource"}]])}}
        return {"enableDynamicWorker": self.random.choice([True, False])} if self.kind == "TFJob" else {}

    def annotations(self) -> dict:
        """A random scope, and perhaps something else that is asked for."""
        scope = self.random.choice(["Auto", "Auto", "Replica", "Role", "Job"])
        other = self.random.choice(
            [("force-delete-after", "1m"), ("startup-deadline", "90s"), ("keep-results", "true")]
        )
        return {f"trainshed.dev/{key}": value for key, value in (("restart-scope", scope), other)}

    @property
    def framework(self):
        """The framework of the job."""
        return next(known for known in self.frameworks if known.kind == self.kind)

    @property
    def job(self):
        """The job as it is stored, read."""
        document = self.world.jobs[self.kind, NAME]
        return read.job(document, self.framework, self.site), read.status(document)

    async def step(self) -> None:
        """Something happens."""
        choose = self.random.choice
        happening = choose(["look"] * 5 + ["hear"] * 3 + ["pods"] * 6 + ["time"] * 2 + ["user", "crash", "touch"])
        if happening == "look":
            if choose([True, True, False]):
                self.hear()
            await self.look()
        elif happening == "hear":
            self.hear()
        elif happening == "time":
            self.world.pass_time(choose([0.3, 1, 5, 30]))
        elif happening == "crash":
            self.world.dies_in, self.world.dies_before = choose([1, 2, 3]), choose([True, False])
        elif happening == "touch":
            self.world.touch(self.kind, NAME)
        elif happening == "user":
            self.use()
        elif self.world.pods:
            self.happen_to(choose(sorted(self.world.pods)))

    def use(self) -> None:
        """The user scales or suspends."""
        field, random, hooks = self.framework.field, self.random, self.framework.hooks
        least = int(self.kind not in MAY_HAVE_NO_WORKERS or hooks.success_policy(self.job[0]).role == "Worker")

        def change(spec: dict) -> None:
            if random.random() < 0.5:
                spec["runPolicy"]["suspend"] = not spec["runPolicy"].get("suspend", False)
            elif "Worker" in spec[field]:
                spec[field]["Worker"]["replicas"] = random.randint(least, 4)

        self.world.edit(self.kind, NAME, change)

    def happen_to(self, name: str) -> None:
        """Something happens to a pod."""
        pod, choose = self.world.pods[name], self.random.choice
        if pod.deleting and pod.node != LOST:
            self.world.confirm_deletion(name)
        elif pod.phase is Phase.PENDING:
            self.world.set_pod(name, "Running", ready=choose([True, False]))
        elif pod.phase is Phase.RUNNING and not pod.ready:
            self.world.set_pod(name, "Running", ready=True)
        elif pod.phase is Phase.RUNNING and not pod.deleting:
            what = choose(["succeed", "fail", "kill", "evict", "delete", "restart", "lose"])
            if what == "succeed":
                self.world.set_pod(name, "Succeeded", code=0)
            elif what in ("fail", "kill"):
                self.world.set_pod(name, "Failed", code=1 if what == "fail" else 137)
            elif what == "evict":
                self.world.set_pod(name, "Failed", reason="Evicted")
            elif what == "delete":
                self.world.delete_by_hand(name)
            elif what == "lose":
                self.world.set_pod(name, "Running", node=LOST)
                self.world.delete_by_hand(name)
            else:
                self.world.set_pod(name, "Running", restarted=1)

    def check(self) -> None:
        """The laws."""
        job, status = self.job
        born, self.born = self.world.made[self.born :], len(self.world.made)
        assert set(born) <= seats(self.world.jobs[self.kind, NAME], self.framework.field), "who is made has a seat"
        live = [pod for pod in self.world.pods.values() if not pod.deleting]
        keys = self.framework.hooks.ssh_secret_name(job)
        assert not (keys and live) or keys in self.world.secrets
        assert len(EXCLUSIVE & set(states(status))) <= 1, states(status)
        state = next((state for state in reversed(states(status)) if not state.startswith("-")), "")
        assert state in MOVES[self.last_state], f"{self.last_state} -> {state}"
        self.last_state = state
        assert job.policy.backoff_limit is None or status.retries.used <= job.policy.backoff_limit
        assert len(str(self.world.jobs[self.kind, NAME].get("status", {}))) < 16_384
        if self.verdict is not None:
            assert self.world.jobs[self.kind, NAME]["status"]["conditions"] == self.verdict
        elif status.over:
            self.verdict = self.world.jobs[self.kind, NAME]["status"]["conditions"]
            assert status.completion is not None

    async def come_to_rest(self) -> None:
        """No more faults: pods run and those who decide succeed, until nothing more is asked for."""
        self.world.dies_in = -1
        decides = self.framework.hooks.success_policy(self.job[0]).role.lower()
        forgiven = [role.lower() for role in self.framework.hooks.optional_roles(self.job[0])]
        for _ in range(80):
            before = len(self.world.writes)
            self.hear()
            await self.look()
            for name, pod in list(self.world.pods.items()):
                if pod.deleting and pod.node == LOST and self.job[0].force_delete_after:
                    continue  # that is for the operator to do
                if pod.deleting:
                    self.world.confirm_deletion(name)
                elif pod.phase is Phase.PENDING or (pod.phase is Phase.RUNNING and not pod.ready):
                    self.world.set_pod(name, "Running", ready=True)
                elif pod.phase is Phase.RUNNING and pod.role == decides and not self.job[1].over:
                    self.world.set_pod(name, "Succeeded", code=0)
                elif pod.phase is Phase.FAILED and pod.role in forgiven:
                    self.world.delete_by_hand(name)  # as with v1 such a job goes on, and nobody else replaces it
            self.check()
            self.world.pass_time(400)
            leaving = any(pod.deleting for pod in self.world.pods.values())
            if len(self.world.writes) == before and not leaving and (self.job[1].over or self.job[0].policy.suspend):
                return
        raise AssertionError(f"no rest: {states(self.job[1])} {self.world.writes[-8:]} {sorted(self.world.pods)}")

    def check_the_end(self) -> None:
        """What is left at rest."""
        job, status = self.job
        assert not any(resource.passing for resource, _ in self.world.dependents)
        if status.over:
            kept = {role.lower() for role in self.framework.objects.retained_roles}
            for pod in self.world.pods.values():
                assert not pod.held, "its result is noted"
                assert pod.over or (str(job.policy.clean_pods) == "None" and pod.role not in kept)
                assert pod.role in kept or str(job.policy.clean_pods) != "All"
            return
        assert job.policy.suspend
        assert not self.world.pods
        assert not self.world.services

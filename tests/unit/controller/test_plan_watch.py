"""While a plan creates pods slowly, creations that its job no longer wants are withdrawn, and it is planned again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from support import virtual_time
from support.builders import FRAMEWORKS as KINDS
from support.harness import Harness, a_spec
from support.virtual_time import clock, in_virtual_time
from trainshed.client.flow_control import Limiters, TokenBucket
from trainshed.controller.plan_watch import PlanChecks
from trainshed.controller.workqueue import Worker, WorkQueue
from trainshed.plan import plan

#: Seconds that an admission webhook takes for each pod.
SLOW = 2.2


class Scene(Harness):
    """A harness with the queue and the worker of an operator; each creation of a pod takes `seconds`."""

    def __init__(self, seconds: float = SLOW) -> None:
        super().__init__()
        self.seconds, self.under_way = seconds, 0
        self.sent: list[float] = []
        self._write, self.world.rest.write = self.world.rest.write, self.write

    async def write(self, verb, path, body, permit):
        if verb == "POST" and path.plural == "pods":
            self.sent.append(clock())
            self.under_way += 1
            await asyncio.sleep(self.seconds)
            self.under_way -= 1
        return await self._write(verb, path, body, permit)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        queue = WorkQueue(lambda _seconds: None)
        self.world.now = virtual_time.now()
        self.view._enqueue, self.view._left, self.view.freed = queue.add, queue.left, queue.freed
        worker = Worker(queue, {"": self.reconciler}, self.metrics, lambda: True, virtual_time.now)
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            task.cancel()
            await worker.give_up()

    async def settle(self, seconds: float, until: Callable[[], object] = lambda: False) -> float:
        """Deliver what happens for this time, or until something is true; return the seconds that it took."""
        began = clock()
        while clock() - began < seconds and not until():
            await asyncio.sleep(0.05)
            self.world.now = virtual_time.now()
            self.hear()
        return clock() - began

    def edit(self, change: Callable[[dict], object]) -> None:
        self.world.edit("TFJob", "mnist", change)

    def submit(self, spec: dict) -> None:
        self.world.submit("TFJob", "mnist", spec, created=virtual_time.now())


def suspend(scene: Scene) -> None:
    scene.edit(lambda spec: spec["runPolicy"].update(suspend=True))


def set_deadline(scene: Scene) -> None:
    scene.edit(lambda spec: spec["runPolicy"].update(activeDeadlineSeconds=1))


def scale_down(scene: Scene) -> None:
    scene.edit(lambda spec: spec["tfReplicaSpecs"]["Worker"].update(replicas=1))


def hand_over(scene: Scene) -> None:
    scene.edit(lambda spec: spec["runPolicy"].update(managedBy="kueue.x-k8s.io/multikueue"))


def succeed(scene: Scene) -> None:
    scene.world.set_pod("mnist-worker-0", "Succeeded", code=0)


def fail(scene: Scene) -> None:
    scene.world.set_pod("mnist-worker-1", "Failed", code=1)


def delete(scene: Scene) -> None:
    scene.world.delete("tfjobs")


#: What supersedes the plan of a job that gets its pods, until when pods are created then, and how many are kept. What
#: depends on the status takes a little longer: the first one may not be stored yet, and a failure may have a cause.
SUPERSEDED = {
    "suspended": (suspend, 1, 0),
    "deadline": (set_deadline, 8, 0),
    "scaled down": (scale_down, 1, 1),
    "managed by another": (hand_over, 1, 8),
    "succeeded": (succeed, 1, 1),
    "failed": (fail, 5, 1),
    "deleted": (delete, 1, 0),
}


@pytest.mark.parametrize("qps", [0, 5])
@pytest.mark.parametrize("what", SUPERSEDED)
def test_no_pod_is_created_any_more_once_the_plan_is_superseded(what, qps):
    change, within, kept = SUPERSEDED[what]

    async def story() -> tuple[float, int]:
        scene = Scene(0.01 if qps else SLOW)
        if qps:
            scene.world.client.limiters = Limiters(TokenBucket(qps, 1))
        async with scene.running():
            scene.submit(a_spec(Worker=100, policy={"cleanPodPolicy": "Running"}))
            await scene.settle(60, lambda: len(scene.world.pods) == 3)
            change(scene)
            changed = clock()
            await scene.settle(45)
            scene.world.collect_garbage()
            return scene.sent[-1] - changed, sum(not pod.deleting for pod in scene.world.pods.values())

    last, left = in_virtual_time(story())
    assert last <= within
    assert left <= kept


def touch(scene: Scene) -> None:
    scene.world.touch("TFJob", "mnist")


def raise_deadline(scene: Scene) -> None:
    scene.edit(lambda spec: spec["runPolicy"].update(activeDeadlineSeconds=10_000 + len(scene.sent)))


def change_template(scene: Scene) -> None:
    image = f"x:{clock()}"
    scene.edit(lambda spec: spec["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0].update(image=image))


def lose_a_pod(scene: Scene) -> None:
    for name in list(scene.world.pods)[:1]:
        scene.world.delete("pods", name, 0)


@pytest.mark.parametrize(
    ("change", "least"), [(None, 25), (touch, 25), (raise_deadline, 25), (change_template, 20), (lose_a_pod, 10)]
)
def test_a_job_that_changes_all_the_time_gets_its_pods_and_none_twice(change, least):
    async def story() -> Scene:
        scene = Scene()
        async with scene.running():
            scene.submit(a_spec(Worker=100))
            while clock() < 1060:
                await scene.settle(0.3)
                if change:
                    change(scene)
            return scene

    scene = in_virtual_time(story())
    assert least <= len(scene.sent)
    if change is not lose_a_pod:
        assert len(scene.world.made) == len(set(scene.world.made))
        assert len(scene.sent) <= len(scene.world.made) + 4, "each one is sent once"


def test_services_are_withdrawn_and_deletions_go_on():
    async def story() -> list[str]:
        scene = Scene(0.01)
        scene.world.client.limiters = Limiters(TokenBucket(5, 1))
        async with scene.running():
            scene.submit(a_spec(PS=1, Worker=20))
            await scene.settle(60, lambda: len(scene.world.pods) == 21)
            scene.edit(lambda spec: spec["tfReplicaSpecs"]["PS"].update(replicas=100))
            scene.edit(lambda spec: spec["tfReplicaSpecs"]["Worker"].update(replicas=1))
            await scene.settle(1)
            mark = len(scene.world.writes)
            suspend(scene)
            await scene.settle(40)
            return scene.since(mark)

    writes = in_virtual_time(story())
    assert sum(write.startswith("create") for write in writes) <= 5
    assert sum(write.startswith("delete pod") for write in writes) >= 20


def test_the_first_status_is_stored_while_pods_are_created():
    async def story() -> float:
        scene = Scene()
        async with scene.running():
            scene.submit(a_spec(Worker=100))
            return await scene.settle(60, lambda: scene.job().get("status"))

    assert in_virtual_time(story()) < 8


def test_a_plan_whose_pods_are_created_quickly_is_not_checked():
    async def story() -> tuple[list[str], int]:
        scene = Scene(0.01)
        scene.reconciler._executor._plan_checks.ask = None
        async with scene.running():
            scene.submit(a_spec(Worker=100))
            await scene.settle(5)
            return scene.states(), len(scene.world.made)

    assert in_virtual_time(story()) == (["Created"], 100)


@pytest.mark.parametrize("workers", [100, 1200])
def test_a_name_is_taken_out_of_a_role_while_pods_are_created(workers):
    """A pod of another owner may have the name of a worker that is gone."""

    async def story() -> float:
        scene, kind = Scene(0.01), KINDS["MPIJob"]
        container = {"name": kind.container.name, "image": "x", "command": ["/etc/mpi/discover_hosts.sh"]}
        group = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
        spec = {kind.field: {"Launcher": group, "Worker": {**group, "replicas": workers}}, "runPolicy": {}}
        async with scene.running():
            scene.world.submit("MPIJob", "m", spec, created=virtual_time.now())
            await scene.settle(60, lambda: len(scene.world.pods) == workers + 1)
            for name in scene.world.pods:
                scene.world.set_pod(name, "Running")
            await scene.settle(5)
            scene.seconds = 30.0
            change = {"replicas": workers + 50}
            scene.world.edit("MPIJob", "m", lambda spec: spec[kind.field]["Worker"].update(change))
            await scene.settle(4)
            scene.world.delete("pods", "m-worker-0", 0)
            scene.world.take_name("m-worker-0")
            return await scene.settle(60, lambda: "'m-worker-0'" not in str(scene.world.get("roles", "m-launcher")))

    assert in_virtual_time(story()) <= 1.5


def test_checks_take_a_small_part_of_the_time_and_each_namespace_has_its_turn():
    async def story() -> list[str]:
        checks, done, loop = PlanChecks(plan), [], asyncio.get_running_loop()

        def work(namespace: str) -> None:
            done.append(namespace)
            loop._now += 10_000  # of work

        for _ in range(50):
            checks.ask("crowd", lambda: work("crowd"))
        checks.ask("quiet", lambda: work("quiet"))
        await asyncio.sleep(2)
        return done

    done = in_virtual_time(story())
    assert "quiet" in done[:2]
    assert 15 <= len(done) <= 21, "a tenth of the time"

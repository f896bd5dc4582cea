"""Objects that list the pods of an MPIJob are not written for each pod, but names leave its Role at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support.builders import a_job, at, replace
from support.virtual_time import in_virtual_time
from trainshed.api.actions import PodState, UpdateDependent
from trainshed.api.objects import ROLES
from trainshed.controller.dependent_updates import DependentDebounce

from .scene import Scene

SIZE = 20
#: Seconds until the launcher of an elastic job reads of a worker that runs.
SOON = 2.5


class Run(Scene):
    """An MPIJob that runs, with a launcher that reads the running hosts or not."""

    def __init__(self, *, elastic: bool) -> None:
        command = ["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"] if elastic else ["mpirun"]
        super().__init__("MPIJob", {"Launcher": 1, "Worker": SIZE})
        template = {"spec": {"containers": [{"name": "mpi", "image": "x", "command": command}]}}
        self.world.edit("MPIJob", "mnist", lambda spec: spec["mpiReplicaSpecs"]["Launcher"].update(template=template))
        self.workers = [f"mnist-worker-{index}" for index in range(SIZE)]

    def hosts(self) -> int:
        """Return the number of hosts that the launcher reads."""
        return self.world.get("configmaps", "mnist-config")["data"]["discover_hosts.sh"].count("mnist-worker-")

    def entered(self) -> set[str]:
        """Return the pods that the launcher may enter."""
        rules = self.world.get("roles", "mnist-launcher")["rules"]
        return {name for rule in rules if "pods/exec" in rule["resources"] for name in rule["resourceNames"]}

    async def start(self, apart: float) -> int:
        """Let one worker after the other run; return how many writes of the ConfigMap that took."""
        writes = 0
        for name in self.workers:
            self.world.set_pod(name, "Running")
            writes += await self.last(apart, "patch configmaps")
        return writes


def story(act: Callable[[Run], Awaitable[None]], *, elastic: bool) -> None:
    async def run() -> None:
        scene = Run(elastic=elastic)
        task = asyncio.create_task(scene.worker.run())
        await scene.last(1, "")
        assert len(scene.world.pods) == SIZE + 1
        await act(scene)
        task.cancel()

    in_virtual_time(run())


@pytest.mark.parametrize("elastic", [True, False])
def test_the_config_map_is_written_each_two_seconds_while_workers_start(elastic):
    async def act(run: Run) -> None:
        assert await run.start(0.2) + await run.last(0.1, "patch configmaps") <= 5
        assert run.hosts() == SIZE, "the last one is written at once"

    story(act, elastic=elastic)


def test_the_launcher_of_an_elastic_job_reads_soon_which_workers_run():
    async def act(run: Run) -> None:
        for expected in (1, 3):
            for name in run.workers[:expected]:
                run.world.set_pod(name, "Running")
            await run.last(SOON, "")
            assert run.hosts() == expected

    story(act, elastic=True)


@pytest.mark.parametrize("elastic", [True, False])
def test_the_launcher_may_enter_all_workers_as_soon_as_they_exist(elastic):
    async def run() -> None:
        scene = Run(elastic=elastic)
        task = asyncio.create_task(scene.worker.run())
        await scene.last(0.12, "")
        assert scene.entered() == set(scene.workers)
        task.cancel()

    in_virtual_time(run())


def test_the_name_of_a_pod_that_is_gone_leaves_the_role_at_once_and_comes_back_with_others():
    async def act(run: Run) -> None:
        await run.start(0.02)
        run.world.set_quota(0)
        for name in run.workers[:3]:
            run.world.delete("pods", name, 0)
        await run.last(0.06, "")
        assert run.entered() == set(run.workers[3:])
        run.world.set_quota(2 * SIZE)
        await run.last(20, "")
        assert run.entered() == set(run.workers)

    story(act, elastic=True)


def test_the_role_of_a_suspended_job_is_not_written_for_each_pod_that_goes():
    async def act(run: Run) -> None:
        await run.start(0.02)
        run.world.edit("MPIJob", "mnist", lambda spec: spec["runPolicy"].update(suspend=True))
        writes = await run.last(1, "patch roles")
        for name in run.workers:
            run.world.confirm_deletion(name)
            writes += await run.last(0.1, "patch roles")
        assert writes == 1
        assert run.entered() == set()

    story(act, elastic=True)


def an_update(digest: str, *entered: str, basis: str = "b") -> UpdateDependent:
    return UpdateDependent(ROLES, "m", {}, digest, PodState(basis, frozenset(entered), complete=False))


def test_a_name_that_an_update_may_have_added_although_its_answer_was_lost_is_taken_out_at_once():
    key, updates = a_job().key, DependentDebounce()
    updates.wrote(key, an_update("1", "a"))
    assert updates.due(key, [an_update("2", "a", "b")], at(0)) == ((), at(0.3))
    assert updates.due(key, [an_update("2", "a", "b")], at(0.3))[1] is None
    assert updates.due(key, [an_update("3", "a", "c")], at(0.3))[1] is None


@pytest.mark.parametrize(
    "update",
    [
        an_update("2", "a", basis="other"),  # the spec has changed as well
        an_update("1", "a"),  # others have changed the object
        an_update("2"),
        replace(an_update("2", "a"), pods=None),
    ],
)
def test_an_update_that_does_not_only_follow_more_pods_is_never_put_off(update):
    key, updates = a_job().key, DependentDebounce()
    updates.wrote(key, an_update("1", "a"))
    assert updates.due(key, [update], at(0)) == ((update,), None)
    updates.forget(key)
    assert updates.due(key, [an_update("2", "a")], at(0))[1] is None

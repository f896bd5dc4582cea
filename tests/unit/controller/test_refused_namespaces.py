"""A namespace that is refused to the operator keeps it neither from the others nor from getting ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.harness import a_spec
from support.virtual_time import in_virtual_time
from support.world import World
from trainshed.client.transport import Answer, Request, Stream
from trainshed.config import Config
from trainshed.controller.manager import Operator
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.in_process import MemoryTransport
from trainshed.process import Clock

FORBIDDEN = Answer(403, b'{"kind": "Status", "reason": "Forbidden", "message": "tfjobs is forbidden: User u cannot"}')


class Way(MemoryTransport):
    """The way to the server, on which requests about some namespaces are refused, or wait."""

    def __init__(self, world: World) -> None:
        super().__init__(world.server, "operator")
        self.refused: set[str] = set()
        self.slow: set[str] = set()

    async def exchange(self, request: Request) -> Answer:
        while self._is_of(self.slow, request):
            await asyncio.sleep(1)
        return FORBIDDEN if self._is_of(self.refused, request) else await super().exchange(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with super().stream(request) as (answer, lines):
            yield (FORBIDDEN if self._is_of(self.refused, request) else answer), lines

    @staticmethod
    def _is_of(namespaces: set[str], request: Request) -> bool:
        return any(f"/namespaces/{name}/" in request.path for name in namespaces)


async def begin(world: World, way: Way) -> Operator:
    """Start the operator of the namespaces `ml` and `b`, each with a job."""
    world.server.make_namespace("b")
    config = Config(health="", metrics="", leader_elect=False, namespaces=("ml", "b"))
    operator = Operator(config, FRAMEWORKS, way, Clock())
    world.submit("TFJob", "mnist", a_spec(Worker=1))
    job = world.get("tfjobs")
    world.server.request(
        "user", "POST", "/apis/kubeflow.org/v1/namespaces/b/tfjobs", body={**job, "metadata": {"name": "theirs"}}
    )
    await operator.start()
    return operator


def served(operator: Operator) -> list[str]:
    text = operator._metrics_text().decode()
    return [line for line in text.splitlines() if line.startswith("trainshed_namespace_served")]


def test_a_refused_namespace_does_not_keep_a_replica_from_getting_ready_and_is_served_once_it_is_not(caplog):
    async def story() -> None:
        world = World()
        way = Way(world)
        way.refused.add("b")
        operator = await begin(world, way)
        await asyncio.sleep(3)
        assert "mnist-worker-0" in world.names("pods")
        assert (operator.ready.is_set(), operator.problem()) == (True, "")
        assert "in namespace b: tfjobs is forbidden" in operator._caches.remarks()
        assert any("namespace b is not served" in record.getMessage() for record in caplog.records)
        states = [
            'trainshed_namespace_served{job_namespace="ml"} 1.0',
            'trainshed_namespace_served{job_namespace="b"} 0.0',
        ]
        assert served(operator) == states
        await asyncio.sleep(300)
        way.refused.clear()
        await asyncio.sleep(5)
        assert "theirs-worker-0" in world.names("pods")
        assert operator._caches.remarks() == operator.problem() == ""
        assert set(served(operator)) == {state.replace(" 0.0", " 1.0") for state in states}
        way.refused.update(("ml", "b"))
        await asyncio.sleep(100)
        assert len(operator.problem().splitlines()) == 2, "none is served"
        await operator.stop()

    in_virtual_time(story())


@pytest.mark.parametrize("refused", ["", "ml"])
def test_a_namespace_that_is_slow_at_the_start_is_waited_for(refused, caplog):
    caplog.set_level(logging.ERROR)

    async def story() -> None:
        world = World()
        way = Way(world)
        way.slow.add("b")
        way.refused.add(refused)
        operator = await begin(world, way)
        await asyncio.sleep(60)
        assert not operator.ready.is_set()
        assert "in namespace b has not synced yet" in operator.problem()
        way.slow.clear()
        await asyncio.sleep(5)
        assert operator.ready.is_set()
        assert operator.problem() == ""
        await operator.stop()

    in_virtual_time(story())

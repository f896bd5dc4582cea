"""Sidecars end after the containers that they serve, in reverse order, within a grace period (KEP-753)."""

from __future__ import annotations

import asyncio
import signal

import pytest

from support.scripted_runtime import ScriptedRuntime
from trainshed.local.stored_objects import POD

from .local_node import Node, play

TERM, KILL = signal.SIGTERM, signal.SIGKILL
SIDECARS = [{"name": name, "restartPolicy": "Always"} for name in ("first", "second")]


def signals(node: Node) -> dict[str, list[int]]:
    return {container.spec.name: container.signals for container in node.runtime.started}


@pytest.mark.parametrize("by_itself", [False, True], ids=["deleted", "by itself"])
def test_sidecars_end_one_after_another_after_the_containers(tmp_path, by_itself):
    async def test(node: Node) -> None:
        await node.create({}, initContainers=SIDECARS, terminationGracePeriodSeconds=20)
        if not by_itself:
            node.delete()
            await asyncio.sleep(1)
            assert signals(node) == {"first": [], "second": [], "main": [TERM]}
        await node.end(0)
        assert signals(node) | {"main": []} == {"first": [], "second": [TERM], "main": []}
        await asyncio.sleep(5)
        await node.end(0, container="second")
        assert signals(node)["first"] == [TERM], "its turn has come"
        await node.end(0, container="first")
        assert not node.kubelet.running()

    play(tmp_path, test, ScriptedRuntime(stubborn=True))


@pytest.mark.parametrize("by_itself", [False, True], ids=["deleted", "by itself"])
def test_a_sidecar_that_ignores_its_end_is_killed_when_the_grace_period_is_over(tmp_path, by_itself):
    async def test(node: Node) -> None:
        await node.create({}, initContainers=SIDECARS[:1], terminationGracePeriodSeconds=20)
        if not by_itself:
            node.delete()
        await node.end(0, after=0 if by_itself else 10)
        await asyncio.sleep(19 if by_itself else 9)
        assert signals(node)["first"] == [TERM]
        await asyncio.sleep(1)
        assert signals(node)["first"] == [TERM, KILL]
        await asyncio.sleep(0.5)
        assert not node.kubelet.running()

    play(tmp_path, test, ScriptedRuntime(stubborn=True))


def test_sidecars_whose_turn_has_not_come_when_the_grace_period_is_over_get_a_short_one(tmp_path):
    async def test(node: Node) -> None:
        await node.create({}, initContainers=SIDECARS, terminationGracePeriodSeconds=5)
        node.delete()
        await asyncio.sleep(5.5)
        assert signals(node) == {"first": [TERM], "second": [TERM], "main": [TERM, KILL]}
        await asyncio.sleep(2)
        assert signals(node) == {"first": [TERM, KILL], "second": [TERM, KILL], "main": [TERM, KILL]}
        await asyncio.sleep(0.5)
        assert node.cluster.find(POD, "ml", "pod") is None

    play(tmp_path, test, ScriptedRuntime(stubborn=True))


@pytest.mark.parametrize("code", [0, 137])
def test_a_pod_is_not_over_while_a_sidecar_runs(tmp_path, code):
    async def test(node: Node) -> None:
        await node.create({}, initContainers=SIDECARS[:1], terminationGracePeriodSeconds=20)
        await node.end(code)
        assert node.pod()["status"]["phase"] == "Running"
        node.delete()
        await asyncio.sleep(10)
        assert signals(node)["first"] == [TERM], "it has the grace period of its pod"
        assert list(node.kubelet.ending()) == ["pod"]
        await node.end(0, container="first")
        assert node.cluster.find(POD, "ml", "pod") is None

    play(tmp_path, test, ScriptedRuntime(stubborn=True))

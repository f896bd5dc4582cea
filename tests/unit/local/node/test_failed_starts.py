"""Containers that the runtime cannot start are tried again and counted, as a kubelet does."""

from __future__ import annotations

import asyncio

from support.scripted_runtime import ScriptedRuntime

from .local_node import Node, play, pod_of


def test_a_start_that_fails_counts_as_a_restart_and_not_as_a_pod_that_waits(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, policy="OnFailure")
        assert node.state()["restartCount"] == 1, "the first restart is immediate"
        assert node.state()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        ended = node.state()["lastState"]["terminated"]
        assert (ended["reason"], ended["startedAt"][:10]) == ("StartError", "1970-01-01"), "as of containerd"
        assert pod_of(node.pod()).phase == "Running", "the container has ended, as a kubelet sees it"
        await asyncio.sleep(10)
        assert node.state()["restartCount"] == 2

    play(tmp_path, test, ScriptedRuntime(missing=("main",)))


def test_nothing_starts_before_a_sidecar_that_cannot_be_started(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, initContainers=[{"name": "side", "restartPolicy": "Always"}])
        await asyncio.sleep(10)
        assert node.pod()["status"]["initContainerStatuses"][0]["restartCount"] == 2
        assert node.runtime.running("pod", "main") is None
        assert pod_of(node.pod()).phase == "Pending"

    play(tmp_path, test, ScriptedRuntime(missing=("side",)))

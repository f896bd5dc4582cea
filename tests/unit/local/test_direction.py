"""What may be done on purpose to the pods of a run: kill, signal, disrupt, lose and evict them."""

from __future__ import annotations

import asyncio
import signal

import pytest

from trainshed.local.direction import Direction

from .node.local_node import Node, play, pod_of


@pytest.mark.parametrize("killed", ["pod", "other"])
def test_a_pod_is_killed_on_purpose(tmp_path, killed):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        assert node.kubelet.kill(killed) == (killed == "pod")
        await asyncio.sleep(0.1)
        assert pod_of(node.pod()).phase == ("Failed" if killed == "pod" else "Running")

    play(tmp_path, test)


def test_a_pod_is_killed_for_a_reason_once(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, policy="OnFailure")
        assert node.kubelet.kill("pod", "OOMKilled")
        await asyncio.sleep(0.1)
        ended = node.state()["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
        assert node.kubelet.kill("pod")
        await asyncio.sleep(0.1)
        assert (node.state()["lastState"] or node.state()["state"])["terminated"]["reason"] == "Error"

    play(tmp_path, test)


def test_a_pod_that_is_disrupted_says_so_when_it_has_ended(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        node.kubelet.disrupt("pod", "EvictionByEvictionAPI", "Eviction API: evicting")
        assert pod_of(node.pod()).disruption == "EvictionByEvictionAPI"
        await node.end(143)
        assert (pod_of(node.pod()).phase, pod_of(node.pod()).disruption) == ("Failed", "EvictionByEvictionAPI")

    play(tmp_path, test)


def test_a_lost_pod_is_gone_at_once_and_its_container_ends(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, policy="OnFailure")
        node.kubelet.lose("pod")
        assert node.cluster.find("Pod", "ml", "pod") is None
        await asyncio.sleep(0.1)
        assert node.runtime.running("pod", "main") is None
        await node.create({"command": ["train"]})
        assert pod_of(node.pod()).phase == "Running"

    play(tmp_path, test)


def test_a_signal_reaches_the_containers_of_one_pod(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]})
        assert node.kubelet.signal("pod", signal.SIGKILL)
        assert not node.kubelet.signal("other", signal.SIGSTOP)
        await asyncio.sleep(0.1)
        assert pod_of(node.pod()).phase == "Failed"

    play(tmp_path, test)


def test_an_evicted_pod_has_its_grace_period_and_says_why_it_ends(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"]}, name="pod")
        await node.create({"command": ["train"]}, name="other")
        direction = Direction(node.cluster, node.kubelet, ())
        known = [pod["metadata"]["name"] for pod in direction.pods("job-uid")]
        assert (known, direction.pods("another")) == (["pod", "other"], [])
        seen: list[dict] = []
        node.cluster.listeners.append(lambda _kind, _before, after: seen.append(after) if after else None)
        direction.evict(node.pod())
        direction.evict(node.pod())  # which is being deleted already
        await asyncio.sleep(0.1)
        marked = next(pod for pod in seen if "deletionTimestamp" in pod["metadata"])
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
        assert pod_of(seen[-1]).disruption == "EvictionByEvictionAPI"
        assert pod_of(seen[-1]).containers[0].exit_code == 128 + signal.SIGTERM
        assert node.cluster.find("Pod", "ml", "pod") is None

    play(tmp_path, test)

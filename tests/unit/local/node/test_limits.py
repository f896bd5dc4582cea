"""Containers get limits of CPU and memory, and GPUs of the machine."""

from __future__ import annotations

from .local_node import Node, play


def test_gpus_are_split_among_pods(tmp_path):
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}

    async def test(node: Node) -> None:
        for name in ("pod", "second", "third"):
            await node.create({"command": ["train"], **limits}, name=name)
        found = [item.spec.visible_gpus["CUDA_VISIBLE_DEVICES"] for item in node.runtime.started]
        assert found == ["0,1", "2,3", "4"]
        await node.end(0)
        await node.create({"command": ["train"], **limits}, name="fourth")
        assert node.runtime.started[-1].spec.visible_gpus == {"CUDA_VISIBLE_DEVICES": "0,1"}

    play(tmp_path, test, gpus=(0, 1, 2, 3, 4))


def test_gpus_are_counted_as_quantities(tmp_path):
    async def test(node: Node) -> None:
        await node.create({"command": ["train"], "resources": {"limits": {"nvidia.com/gpu": "1k"}}})
        assert node.runtime.started[0].spec.gpus == "0,1"

    play(tmp_path, test, gpus=(0, 1))


def test_containers_without_limits_have_those_of_their_pod(tmp_path):
    async def test(node: Node) -> None:
        own = {"resources": {"limits": {"cpu": "1"}}}
        await node.create({"command": ["train"]}, {"name": "side", **own}, resources={"limits": {"cpu": 2}})
        assert [item.spec.limits for item in node.runtime.started] == [{"cpu": "2"}, {"cpu": "1"}]

    play(tmp_path, test)

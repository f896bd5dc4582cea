"""A kubelet of a local run with its cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from support.scripted_runtime import NoLogs, ScriptedRuntime
from support.virtual_time import in_virtual_time, now
from trainshed.api.objects import Pod
from trainshed.client.decode import PodObject, pod
from trainshed.local.cluster import LocalCluster
from trainshed.local.node.downward import NodeFacts
from trainshed.local.node.environment import EnvironmentResolver, Gpus
from trainshed.local.node.images import Images
from trainshed.local.node.kubelet import Kubelet
from trainshed.local.node.pod_worker import KubeletDependencies
from trainshed.local.node.volumes import Volumes
from trainshed.local.stored_objects import POD

OWNER = {"uid": "job-uid", "controller": True, "kind": "TFJob", "name": "job", "apiVersion": "kubeflow.org/v1"}


PODS = "/api/v1/namespaces/ml/pods"


def pod_of(found: dict) -> Pod:
    return pod(msgspec.convert(found, PodObject))


class Node:
    """A kubelet with its cluster; `run` plays a test in virtual time."""

    def __init__(
        self, folder: Path, runtime: ScriptedRuntime, gpus: tuple[int, ...] = (), images: Images | None = None
    ) -> None:
        self.cluster, self.runtime, self.logs = LocalCluster(now, ()), runtime, NoLogs()
        self.cluster.server.make_namespace("ml")
        resolver = EnvironmentResolver(self.cluster.find)
        volumes = Volumes(resolver, folder)
        self.kubelet = Kubelet(
            KubeletDependencies(
                *(self.cluster, runtime, self.logs, now, folder, volumes, resolver, Gpus(gpus), NodeFacts("node")),
                images=images or Images(),
            )
        )

    async def create(self, *containers: dict, policy: str = "Never", name: str = "pod", **spec) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {}, "ownerReferences": [OWNER]},
            "spec": {
                "restartPolicy": policy,
                "containers": [{"name": "main", "image": "x", **item} for item in containers],
                **spec,
            },
        }
        self.cluster.server.request("operator", "POST", PODS, body=body)
        await asyncio.sleep(0.1)

    def delete(self, grace: int | None = None) -> None:
        self.cluster.server.request("operator", "DELETE", f"{PODS}/pod", body={"gracePeriodSeconds": grace})

    def pod(self) -> dict:
        found = self.cluster.find(POD, "ml", "pod")
        assert found is not None
        return found

    def state(self) -> dict:
        return self.pod()["status"]["containerStatuses"][0]

    async def end(self, code: int, text: str = "", container: str = "main", after: float = 0.1) -> None:
        await asyncio.sleep(after)
        running = self.runtime.running("pod", container)
        assert running is not None, "it does not run"
        running.end(code, text)
        await asyncio.sleep(0.1)


def play(folder: Path, test: Callable[[Node], Awaitable[None]], runtime: ScriptedRuntime | None = None, **more) -> None:
    async def run() -> None:
        await test(Node(folder, runtime or ScriptedRuntime(), **more))

    in_virtual_time(run())

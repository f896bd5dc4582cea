"""A small cluster for gang schedulers, which has room for four pods, and a user's jobs on it.

Its nodes and kubelets are simulated here; on the kind cluster they are real.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from . import reported
from .fake_kubelet import FakeKubelet
from .jobs import KINDS, job, pod_spec
from .user_client import MERGE, UserClient, eventually

#: The cluster has two nodes of two CPUs: four pods of one CPU fit.
NODES, CPUS = ("node-a", "node-b"), 2
PRIORITIES = {"low": 10, "high": 1000}
#: A limit in seconds for steps that take a few seconds on an idle machine.
PATIENCE = 120
SCHEDULING = "/apis/scheduling.k8s.io/v1/priorityclasses"


#: A gang that a user made: a PodGroup of three pods, and an MPIJob whose templates bear its mark.
RING_GROUP, RING = reported.documents("11-own-gang")


@dataclass(frozen=True)
class OwnGang:
    """How users put the pods of `ring` into a gang by themselves: its PodGroup, and what marks a template."""

    group: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)


def prepare(kubeconfig: Path) -> None:
    """Create the nodes and two PriorityClasses, `low` and `high`."""
    admin = UserClient(kubeconfig, "default")
    for node in NODES:
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}},
        }
        admin.call("POST", "/api/v1/nodes", body)
        room = {"cpu": str(CPUS), "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "50"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        admin.call("PATCH", f"/api/v1/nodes/{node}/status", status, MERGE)
        admin.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}}, MERGE)
    for name, value in PRIORITIES.items():
        admin.call("POST", SCHEDULING, {"metadata": {"name": name}, "value": value})


class GangCluster:
    """A user's jobs on a cluster; its subclasses run the pods that have a node."""

    #: The requests and limits of the container of each pod: room for one on the cluster.
    resources: ClassVar[dict[str, dict[str, str]]] = {"requests": {"cpu": "1"}}

    def __init__(self, kubeconfig: Path, groups: str) -> None:
        self.user = UserClient.somewhere(kubeconfig)
        self.groups = f"/apis/{groups}/namespaces/{self.user.namespace}/podgroups"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Delete all jobs, and wait until their pods are gone."""
        self.user.delete_jobs()
        eventually(lambda: self.user.pods() == [], PATIENCE)

    def end(self, pod: str, code: int) -> None:
        """End the container of a running pod with this exit code."""
        raise NotImplementedError

    def container(self) -> dict[str, Any]:
        """Return fields of the container of each pod."""
        return {"resources": self.resources}

    def submit(self, name: str, pods: int, *, priority: str = "", **policy: Any) -> None:
        """Create a PyTorchJob of so many pods; `policy` is its schedulingPolicy."""
        roles = {"Master": 1, "Worker": pods - 1}
        body = job("PyTorchJob", name, policy={"schedulingPolicy": policy}, restart="ExitCode", **roles)
        for role in roles:
            spec = pod_spec(body, role)
            spec["containers"][0] |= self.container()
            if priority:
                spec["priorityClassName"] = priority
        self.user.create(body)

    def submit_marked(self, kind: str, own: OwnGang) -> None:
        """Create a job of three pods, `ring`, with the marks of a user's own gang, and the PodGroup of that."""
        if own.group:
            self.user.call("POST", self.groups, own.group)
        body = copy.deepcopy(RING) if kind == "MPIJob" else job(kind, "ring", Master=1, Worker=2)
        for part in body["spec"][KINDS[kind].field].values():
            containers = part["template"]["spec"]["containers"]
            part["template"] = {"metadata": own.metadata, "spec": {"containers": containers, **own.fields}}
        self.user.create(body)

    def scale(self, name: str, pods: int) -> None:
        self.user.patch_job("PyTorchJob", name, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": pods - 1}}}})

    def bound(self, name: str) -> int:
        """The number of the job's pods that have a node and have not ended."""
        pods = [pod for pod in self.user.pods(name) if pod["status"].get("phase") in ("Pending", "Running")]
        return sum(1 for pod in pods if pod["spec"].get("nodeName"))

    def uids(self, name: str) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.user.pods(name)}

    def runs(self, name: str, pods: int) -> bool:
        """Whether the job runs with so many pods."""
        found = [pod for pod in self.user.pods(name) if pod["status"].get("phase") == "Running"]
        return len(found) == pods and self.state(name) == "Running"

    def state(self, name: str) -> str:
        return self.user.state("PyTorchJob", name)

    def blocked(self, name: str) -> str:
        """Reason and message of the condition Blocked, "" without it."""
        found = self.user.conditions("PyTorchJob", name).get("Blocked", {})
        return f"{found['reason']}: {found['message']}" if found.get("status") == "True" else ""

    def group(self, name: str) -> dict | None:
        """The PodGroup of the job, or None."""
        return self.user.find(f"{self.groups}/{name}")

    def finish(self, name: str) -> None:
        """Let the master of a running job succeed, and with it the job; its pods are deleted or end."""
        for pod in self.user.pods(name):
            if pod["status"].get("phase") == "Running":
                self.end(pod["metadata"]["name"], 0)

    def fail(self, pod: str) -> None:
        self.end(pod, 137)


class KaiGroups(GangCluster):
    """A cluster in which KAI names the PodGroups."""

    def group(self, name: str) -> dict | None:
        """The PodGroup whose owner has this name, or None."""
        groups = self.user.call("GET", self.groups)["items"]
        return next((group for group in groups if group["metadata"]["ownerReferences"][0]["name"] == name), None)


class SimulatedGangCluster(GangCluster):
    """A cluster whose nodes are simulated: a fake kubelet runs what is bound to them."""

    def __init__(self, kubeconfig: Path, groups: str) -> None:
        super().__init__(kubeconfig, groups)
        self.held: set[str] = set()  # the names of pods that get a node and do not start
        self._kubelet = FakeKubelet(self.user, self._script)

    def __enter__(self) -> Self:
        self._kubelet.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._kubelet.__exit__()

    def end(self, pod: str, code: int) -> None:
        """Let the kubelet say that the container has ended."""
        self._kubelet.end(pod, code)

    def _script(self, name: str) -> str:
        pod = self.user.pod(name)
        return "Running" if name not in self.held and pod and pod["spec"].get("nodeName") else ""

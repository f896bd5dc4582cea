"""A cluster in memory with many jobs, their pods and logs, and the page over it, for browsers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import orjson

from trainshed.api.coerce import format_time
from trainshed.client.transport import Answer, Request
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.in_process import MemoryTransport
from trainshed.memory.server import Server

from . import pod_statuses
from .pages import Jobs, jobs_path, pod_of
from .pod_logs import PodLogs

#: The node of all pods, with a name as long as clouds give them.
NODE = "gke-research-a100-80g-pool-7f3c9d21-x4k2.europe-west4-b.c.ml.internal"
#: What the server in memory does not answer: which kinds there are.
SERVED = {
    "/apis/kubeflow.org/v1": {"resources": [{"name": one.plural, "kind": one.kind} for one in FRAMEWORKS]},
    "/version": {"gitVersion": "v1.34.0"},
    "/apis": {"groups": []},
    "/api/v1/nodes": {
        "metadata": {},
        "items": [
            {
                "metadata": {"name": f"n-{number}"},
                "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "96", "pods": "110"}},
            }
            for number in range(640)
        ],
    },
}
KIND = "PyTorchJob"


class PageTransport(PodLogs):
    """The server in memory, discovery, and logs of pods that can be read again, as those of a kubelet.

    `logs` has the lines of each pod so far, by its name, each with its time; `written` is set when there are more.
    `answers` are those to other paths.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(MemoryTransport(server, "user"))
        self.logs: dict[str, list[bytes]] = {}
        self.answers: dict[str, dict] = dict(SERVED)
        self.written = asyncio.Event()

    async def exchange(self, request: Request) -> Answer:
        if found := self.answers.get(str(request.path)):
            return Answer(HTTPStatus.OK, orjson.dumps(found))
        return await super().exchange(request)

    def write(self, pod: str, *texts: str) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z").encode()
        self.logs.setdefault(pod, []).extend(now + b" " + text.encode() + b"\n" for text in texts)
        self.written.set()
        self.written = asyncio.Event()

    async def _read(self, pod: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        lines, since = self.logs.setdefault(pod, []), query.get("sinceTime", "").encode()
        place = max(0, len(lines) - int(query.get("tailLines", len(lines))))
        while since and place < len(lines) and lines[place] < since:
            place += 1
        while place < len(lines) or query.get("follow") == "true":
            written = self.written
            if place < len(lines):
                piece, place = b"".join(lines[place:]), len(lines)
                yield piece
            else:
                await written.wait()


class PageCluster(Jobs):
    """The cluster: `transport` is the way to it. All its times are those of the machine's clock."""

    def __init__(self) -> None:
        super().__init__(lambda: datetime.now(UTC), PageTransport)
        self._random = random.Random(1)

    def add(self, namespace: str, name: str, replicas: int, state: str = "Running") -> None:
        """Create a PyTorchJob in a state with its pods."""
        container = {"name": "pytorch", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
        template = {"spec": {"containers": [container]}}
        roles = {"Master": {"replicas": 1, "template": template}}
        if replicas > 1:
            roles["Worker"] = {"replicas": replicas - 1, "template": template}
        body = {"metadata": {"name": name}, "spec": {"pytorchReplicaSpecs": roles}}
        job = self.ask("POST", jobs_path(KIND, namespace=namespace), body)
        began = datetime.now(UTC) - timedelta(minutes=self._random.randrange(5, 3000))
        self.report(namespace, name, state=state, began=began)
        for index in range(replicas):
            replica = "master-0" if index == 0 else f"worker-{index - 1}"
            self._pod(job, replica, template["spec"], began, failed=state == "Failed" and replica == "worker-1")

    def report(
        self, namespace: str, name: str, *, state: str = "", step: int = 0, began: datetime | None = None
    ) -> None:
        """Write the status of a job: another state, or another step that its training has reported."""
        now, status = datetime.now(UTC), dict[str, object]()
        if state:
            blocked = _condition(state, began or now) if state == "Blocked" else None  # beside those of v1
            kinds = ["Created"] if blocked else ["Created", state]
            status = {"conditions": [_condition(kind, began or now) for kind in kinds], "blocked": blocked}
            status |= {"startTime": format_time(began or now), "ready": "8/8" if state == "Running" else "3/8"}
            status["state"] = state
        status["trainerStatus"] = {
            "progressPercentage": step % 10_000 // 100,
            "estimatedRemainingSeconds": 3_600,
            "lastUpdatedTime": format_time(now),
            "metrics": [{"name": "step", "value": str(step)}, {"name": "loss", "value": f"{9 / (1 + step % 999):.4f}"}],
        }
        self.ask("PATCH", f"{jobs_path(KIND, name, namespace)}/status", {"status": status})

    def _pod(self, job: dict, replica: str, spec: dict, began: datetime, *, failed: bool) -> None:
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        body = pod_of(name, job["metadata"]["uid"], replica, **spec, nodeName=NODE)
        pod = dict(self.create_pod(body, namespace))
        pod["status"] = pod_statuses.running(pod, began.timestamp() + 20)
        if failed:
            pod["status"] = pod_statuses.ended(pod, 1, datetime.now(UTC).timestamp())
        path = f"/api/v1/namespaces/{namespace}/pods/{name}-{replica}/status"
        self.ask("PATCH", path, {"status": pod["status"] | {"podIP": "10.0.0.1"}})


def _condition(kind: str, since: datetime) -> dict:
    time = format_time(since)
    message = {
        "Failed": "worker-1 failed: container pytorch exited with code 1: RuntimeError: CUDA out of memory",
        "Blocked": "worker 0-6: 0/12 nodes are available: 12 Insufficient nvidia.com/gpu",
    }.get(kind, f"the job is {kind}")
    return {
        "type": kind,
        "status": "True",
        "reason": f"Job{kind}" if kind != "Blocked" else "Unschedulable",
        "message": message,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }

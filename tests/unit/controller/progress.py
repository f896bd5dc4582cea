"""A progress endpoint on the loopback with the certificate of `localhost`, and a client that is Trainer's."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path as FilePath
from typing import Self

from support.builders import T0, a_job, a_pod, cached
from support.replace import replace
from support.world import World
from testbed.ports import free_port
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Job, ProgressSource
from trainshed.client import Unavailable
from trainshed.client.transport import Path, RestClient
from trainshed.controller.cache import Cache
from trainshed.controller.events import EventRecorder
from trainshed.controller.health import listening_sockets
from trainshed.controller.progress_endpoint import ProgressEndpoint, SharedCertificate
from trainshed.controller.progress_server import KnownJobs, ReportReceiver
from trainshed.controller.progress_tokens import TokenReviews
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.in_process import MemoryTransport
from trainshed.plan.reporting_pods import audience
from trainshed.process import Clock

NAMESPACE, SECRET, HOST = "operators", "progress", "localhost"


class ApiServer:
    """The server in memory, which reviews tokens as well: `pods` has the pod that each token belongs to."""

    def __init__(self) -> None:
        self.world = World()
        self.world.server.make_namespace(NAMESPACE)
        self._rest = RestClient(MemoryTransport(self.world.server, "endpoint"))
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
        self.world.server.request("chart", "POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body=secret)
        self.pods: dict[tuple[str, str], dict[str, str]] = {}
        self.reviews = 0
        self.answers = True

    def gives(self, token: str, job: str, pod: str, **fields: str) -> None:
        """Let this token be that of a pod, for the path of a job."""
        self.pods[token, audience("ml", job)] = {"name": f"{job}-{pod}", "uid": f"{pod}-uid", **fields}

    async def call(self, verb: str, path: Path, body: dict | None = None, query: object = None) -> bytes:
        """Implement the method of a `RestClient`."""
        if path.plural != "tokenreviews":
            return await self._rest.call(verb, path, body, query)
        self.reviews += 1
        await asyncio.sleep(0.01)
        if not self.answers:
            raise Unavailable("POST tokenreviews: no answer")
        [wanted] = body["spec"]["audiences"]
        pod = self.pods.get((body["spec"]["token"], wanted))
        if pod is None:
            return json.dumps({"status": {"authenticated": False, "error": "unknown"}}).encode()
        extra = {f"authentication.kubernetes.io/pod-{part}": [pod[part]] for part in ("name", "uid") if pod[part]}
        user = {"username": pod.get("user", "system:serviceaccount:ml:default"), "extra": extra}
        return json.dumps({"status": {"authenticated": True, "audiences": [wanted], "user": user}}).encode()


def a_reporting_job(kind: str = "PyTorchJob", name: str = "mnist", **fields: object) -> Job:
    """Return a job that reports to the endpoint."""
    return replace(a_job(kind, name=name, worker=1), **{"progress": ProgressSource.ENDPOINT, **fields})


class ProgressReplica:
    """A replica of the operator, as far as reports are concerned."""

    def __init__(self, server: ApiServer, leader: str | None = None) -> None:
        self.server, self.leader = server, leader
        self.counted: Counter[str] = Counter()
        self.cache = Cache(FRAMEWORKS, JobDefaults(progress_server=f"{HOST}:1"), lambda _key: None)
        rest: RestClient = server  # type: ignore[assignment]
        self.jobs = KnownJobs({"": self.cache})
        self.recorder = EventRecorder(server.world.client, lambda: None, lambda: T0)
        receiver = ReportReceiver(self.jobs, TokenReviews(rest), self.recorder, self._count)
        self.certificate = SharedCertificate(rest, NAMESPACE, SECRET, HOST)
        self.bundle = ""
        self.endpoint = ProgressEndpoint(self.certificate, receiver, self._trust, Clock().now)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        sockets = list(listening_sockets("127.0.0.1", self.port))
        self._task = asyncio.create_task(self.endpoint.run(sockets, lambda: self.leader, self._ready))
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED)
        assert ready.done(), self._task.result()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def knows(self, job: Job, *pods: str) -> None:
        """Let it know a job with these pods."""
        self.cache.jobs[job.kind].changed(cached(job))
        for pod in pods:
            found = a_pod(pod, job=job.name, uid=f"{pod}-uid")
            self.cache.pods.store.changed(replace(found, owner=job.uid))

    def url(self, job: str = "mnist", namespace: str = "ml") -> str:
        """Return the address for the reports of a job."""
        return f"https://{HOST}:{self.port}/apis/{audience(namespace, job)}"

    async def post(
        self, body: object, token: str = "good", url: str = "", headers: dict | None = None
    ) -> tuple[int, dict]:
        """Send a report as Trainer's clients do; return code and body of the answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(url or self.url(), data=content, headers=headers, method="POST")
        context = ssl.create_default_context(cadata=self.bundle)
        return await asyncio.to_thread(_send, request, context)

    async def events(self) -> list[str]:
        await self.recorder.flush()
        return [event["message"] for event in self.server.world.server.objects("events")]

    def _trust(self, bundle: str) -> None:
        self.bundle = bundle
        self.jobs.trust(bundle)

    def _count(self, answer: str) -> None:
        self.counted[answer] += 1


def _send(request: urllib.request.Request, context: ssl.SSLContext) -> tuple[int, dict]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=5) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def recorded() -> list[dict]:
    """Return the requests of a training of eight steps, as an unmodified Trainer of transformers 5.24 has sent them."""
    return json.loads((FilePath(__file__).parents[2] / "support/kubeflow_callback.json").read_text())

"""The progress endpoint of a local run: the operator's, with a certificate and tokens that nothing but the run has."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from aiohttp import web

from trainshed.api.job import Document, JobKey
from trainshed.api.trainer_status import TrainerStatus
from trainshed.controller import serving_certificates
from trainshed.controller.cache import Cache
from trainshed.controller.events import EventRecorder
from trainshed.controller.progress_connections import serve
from trainshed.controller.progress_server import MAX_BYTES, OF_JOB, PATH, KnownJobs, ReportReceiver
from trainshed.controller.progress_tokens import BadToken, Sender
from trainshed.local.runtimes.protocol import Runtime, StartFailed
from trainshed.plan.reporting_pods import audience

from . import tasks
from .stored_objects import job_name


class RunTokens:
    """Implements `trainshed.controller.progress_server.Senders` by tokens that the run itself gives to its pods.

    Only the volume of the pod has a token, and only its user can read that.
    """

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._senders: dict[bytes, tuple[Sender, str]] = {}

    def of(self, pod: Document, wanted: str) -> str:
        """Return the token of a pod for an audience, empty unless that is the path of its job."""
        metadata = pod["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        if wanted != audience(namespace, job_name(pod)):
            return ""
        if uid not in self._tokens:
            self._tokens[uid] = secrets.token_urlsafe(32)
            self._senders[_digest(self._tokens[uid])] = (Sender(namespace, name, uid), wanted)
        return self._tokens[uid]

    async def sender(self, token: str, audience: str, address: str) -> Sender:  # noqa: ARG002 - from the protocol
        """Return the pod of a token; raises `BadToken`."""
        found, path = self._senders.get(_digest(token), (None, ""))
        if found is None or path != audience:
            raise BadToken("the token is not that of a replica of this run, or not for this job")
        return found


#: Is called with a report, and the name and the uid of the pod that it came from.
Heard: TypeAlias = Callable[[TrainerStatus, tuple[str, str]], None]
#: The reports of a job that are taken for a drill, a second and at once: all that a program can send.
ALL = (1_000.0, 1_000)


class HeardJobs(KnownJobs):
    """The jobs of a run, of whose reports each is heard."""

    def __init__(self, caches: Mapping[str, Cache], heard: Heard) -> None:
        super().__init__(caches)
        self._heard = heard

    def report(self, key: JobKey, uid: str, status: TrainerStatus, pod: tuple[str, str]) -> None:
        """Take a report."""
        super().report(key, uid, status, pod)
        self._heard(status, pod)


class RunEndpoint:
    """Serves reports on a socket at an address that replicas reach. The keys of its certificate are in memory only.

    If `heard` is called with the reports, none comes too often.
    """

    def __init__(self, listener: socket.socket, heard: Heard | None = None) -> None:
        self._listener = listener
        self._host, port = listener.getsockname()
        self.address = f"{self._host}:{port}"
        self.tokens = RunTokens()
        self._heard = heard

    async def start(self, cache: Cache, recorder: EventRecorder, now: Callable[[], datetime]) -> asyncio.Task[None]:
        """Return the task that serves reports of the jobs in a cache, whose pods trust the certificate from now on."""
        certificate = await asyncio.to_thread(serving_certificates.renewed, None, self._host, now())
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.load_into(context)
        jobs = HeardJobs({"": cache}, self._heard) if self._heard else KnownJobs({"": cache})
        jobs.trust(certificate.bundle.decode())
        rates = ALL if self._heard else OF_JOB
        receiver = ReportReceiver(jobs, self.tokens, recorder, lambda _answer: None, rates)

        async def handle(request: web.Request) -> web.Response:
            response = await receiver.receive(request, request.remote or "", now)
            response.force_close()
            return response

        return tasks.start(serve(PATH, handle, MAX_BYTES, context, [self._listener]), "progress endpoint")


async def open_endpoint(runtime: Runtime, ignored: list[str], heard: Heard | None) -> RunEndpoint | None:
    """Return where trainings report, None if replicas do not reach this process, which is then among `ignored`."""
    try:
        return RunEndpoint(await runtime.listen(), heard)
    except StartFailed as error:
        ignored.append(f"trainshed.dev/progress: Endpoint ({error})")
        return None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()

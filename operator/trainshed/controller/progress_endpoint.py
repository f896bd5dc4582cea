"""The progress endpoint of a replica: its certificate in a Secret that all replicas share, and its HTTPS server."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from aiohttp import web

from trainshed.api.job import Document
from trainshed.client import ApiError, Conflict
from trainshed.client.client import CORE
from trainshed.client.lists import DOCUMENTS
from trainshed.client.transport import FIELD_MANAGER, Path, RestClient
from trainshed.config import Config
from trainshed.plan.messages.progress_reports import FORWARDED

from . import serving_certificates
from .namespaces import Controller
from .progress_connections import serve
from .progress_forwarding import ReportForwarder
from .progress_server import MAX_BYTES, PATH, KnownJobs, ReportReceiver, ReportRefused, answer
from .progress_tokens import TokenReviews
from .serving_certificates import ServingCertificate

#: Seconds between two reads of the Secret, and after one that failed.
INTERVAL, RETRY = 60.0, 5.0

log = logging.getLogger(__name__)


class SharedCertificate:
    """The certificate in the Secret, which the chart creates empty: who finds it missing or about to end, fills it.

    Of two replicas that do, one wins, by the version of the Secret, and the other takes what that has written.
    """

    def __init__(self, rest: RestClient, namespace: str, name: str, host: str) -> None:
        self._rest = rest
        self._path = Path(CORE, "secrets", namespace, name)
        self.name, self.host = f"{namespace}/{name}", host

    async def current(self, now: datetime) -> ServingCertificate:
        """Return the certificate, and renew it if it is time; raises `ApiError`."""
        while True:
            secret = DOCUMENTS.answer(await self._rest.call("GET", self._path))
            known = serving_certificates.from_secret(secret.get("data"))
            found = await asyncio.to_thread(serving_certificates.renewed, known, self.host, now)
            if found is known:
                return found
            body: Document = {**secret, "data": found.data()}
            try:
                await self._rest.call("PUT", self._path, body, FIELD_MANAGER)
            except Conflict:
                continue
            log.info("secret %s: a new certificate for %s", self.name, self.host)
            return found


class ProgressEndpoint:
    """Serves reports over TLS, and gives the CAs of its certificate to `trust`, at the start and when they change."""

    def __init__(
        self,
        certificate: SharedCertificate,
        receiver: ReportReceiver,
        trust: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        self._certificate = certificate
        self._receiver = receiver
        self._trust = trust
        self._now = now
        self._used: ServingCertificate | None = None
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._forwarder: ReportForwarder | None = None

    async def run(
        self, sockets: Iterable[socket.socket], leader: Callable[[], str | None], has_certificate: asyncio.Event
    ) -> None:
        """Serve on these sockets without end, and close them; set the flag once there is a certificate.

        `leader` returns the address of the leader: None if this replica is it, "" if it is not known.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_certificate(has_certificate))
                await has_certificate.wait()
                group.create_task(serve(PATH, partial(self._handle, leader), MAX_BYTES, self._context, tuple(sockets)))
        finally:
            if self._forwarder:
                await self._forwarder.close()
            for each in sockets:
                each.close()

    async def _follow_certificate(self, there: asyncio.Event) -> None:
        """Use the certificate of the Secret, also when it changes; log only the first of consecutive failures."""
        failing = False
        while True:
            try:
                await self._use(await self._certificate.current(self._now()))
            except (ApiError, ssl.SSLError) as error:
                if not failing:
                    log.warning("trainings cannot report: secret %s: %s", self._certificate.name, error)
                failing = True
            else:
                failing = False
                there.set()
            await asyncio.sleep(RETRY if failing else INTERVAL)

    async def _use(self, found: ServingCertificate) -> None:
        if found == self._used:
            return
        found.load_into(self._context)
        asking = ssl.create_default_context(cadata=found.bundle.decode("ascii", "replace"))
        before, self._forwarder = self._forwarder, ReportForwarder(self._certificate.host, asking, found.authority_key)
        if self._used is None or found.bundle != self._used.bundle:
            self._trust(found.bundle.decode("ascii", "replace"))
        self._used = found
        if before is not None:
            await before.close()

    async def _handle(self, leads: Callable[[], str | None], request: web.Request) -> web.Response:
        leader, forwarder, address = leads(), self._forwarder, request.remote or ""
        assert forwarder is not None, "nothing is accepted without a certificate"  # noqa: S101 # nosec B101 - for mypy
        try:
            if leader is not None:
                response = await forwarder.forward(request, leader)
                self._receiver.count(FORWARDED)
            else:
                address = forwarder.source(request)
                response = await self._receiver.receive(request, address, self._now)
        except ReportRefused as refused:
            self._receiver.refuse(refused, address)
            response = answer(refused)
        response.force_close()
        return response


def make_endpoint(
    settings: Config,
    rest: RestClient,
    controller: Controller,
    count: Callable[[str], None],
    now: Callable[[], datetime],
) -> ProgressEndpoint:
    """Return the endpoint of this replica."""
    host = settings.job_defaults.progress_server.rpartition(":")[0]
    certificate = SharedCertificate(rest, settings.effective_lease_namespace, host.partition(".")[0], host)
    jobs = KnownJobs({name: namespaced.cache for name, namespaced in controller.caches.all.items()})
    receiver = ReportReceiver(jobs, TokenReviews(rest), controller.recorder, count)
    return ProgressEndpoint(certificate, receiver, jobs.trust, now)

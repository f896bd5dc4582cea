"""Forwards reports of the progress of trainings to the replica that leads, the only one that writes statuses."""

from __future__ import annotations

import hmac
import ssl

import aiohttp
from aiohttp import web

from trainshed.plan.messages import progress_reports as messages
from trainshed.plan.messages.progress_reports import ReportRefusal

from .progress_server import MAX_BYTES, ReportRefused, body_of

#: The header in which a replica names the address that a report came from, with a code that only replicas can make.
FORWARDED = "Trainshed-Forwarded-For"
#: Seconds: a client of Trainer waits for five. Connections at a time: the leader has a limit for each address.
TIMEOUT, CONNECTIONS = aiohttp.ClientTimeout(total=4.0), 12


class ReportForwarder:
    """Sends reports to the leader, whose certificate has the name of the endpoint as that of each replica."""

    def __init__(self, host: str, context: ssl.SSLContext, secret: bytes) -> None:
        self._host = host
        self._context = context
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None

    async def forward(self, request: web.Request, leader: str) -> web.Response:
        """Return the answer of the leader at this address; raises `ReportRefused`."""
        if not leader or FORWARDED in request.headers:
            raise ReportRefused(ReportRefusal.NO_LEADER, messages.NO_LEADER)
        content, address = await body_of(request), request.remote or ""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS, force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, auto_decompress=False)
        try:
            headers = {
                "Authorization": request.headers.get("Authorization", ""),
                "Content-Type": "application/json",
                FORWARDED: f"{address} {self._code(address)}",
            }
            async with self._session.post(
                f"https://{leader}{request.path}",
                data=content,
                headers=headers,
                ssl=self._context,
                server_hostname=self._host,
                allow_redirects=False,
            ) as found:
                answer = await found.content.read(2 * MAX_BYTES)
                return web.Response(status=found.status, body=answer, content_type="application/json")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            raise ReportRefused(ReportRefusal.NO_LEADER, messages.NO_LEADER) from None

    def source(self, request: web.Request) -> str:
        """Return the address that a report came from, which another replica may say."""
        address, _, code = request.headers.get(FORWARDED, "").rpartition(" ")
        if hmac.compare_digest(code.encode(), self._code(address).encode()):
            return address
        return request.remote or ""

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _code(self, address: str) -> str:
        return hmac.digest(self._secret, address.encode(), "sha256").hex()

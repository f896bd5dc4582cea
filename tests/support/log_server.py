"""A kubelet that serves nothing but logs, to the API server: each container says a line every some seconds."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testbed.ports import free_port

from .user_client import UserClient

HOST = "127.0.0.1"
#: The text that a container has printed since it was first read: by the number of its lines so far.
Script = Callable[[str, int], str]


class LogServer:
    """Serves the logs of all pods of a node, from a thread; `open` is the number of those that are followed."""

    def __init__(self, user: UserClient, node: str, script: Script, every: float) -> None:
        self.open = self.most_open = 0
        self._script, self._every = script, every
        self._port = free_port()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        status = {
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
        }
        user.call("POST", "/api/v1/nodes", {"metadata": {"name": node}, "status": status})

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._ready.set()
        self._loop.run_forever()

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._log)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port, ssl_context=_tls(), backlog=2048).start()

    async def _end(self) -> None:
        await self._runner.cleanup()
        await asyncio.sleep(1)  # TLS connections close a little later

    async def _log(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            for number in range(1_000_000 if request.query.get("follow") == "true" else 1):
                await answer.write(self._script(request.match_info["pod"], number).encode())
                await asyncio.sleep(self._every)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
        return answer


def _tls() -> ssl.SSLContext:
    """Return the context of a server with a certificate that nothing signs: the API server does not ask for more."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HOST))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        pem = serialization.Encoding.PEM
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        Path(file.name).write_bytes(certificate.public_bytes(pem) + key.private_bytes(pem, *plain))
        context.load_cert_chain(file.name)
    return context

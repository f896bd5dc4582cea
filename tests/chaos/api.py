"""A user's, a kubelet's and an auditor's requests: the administrator's rights, and nothing of the operator's client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
import orjson

from support.user_client import MERGE, Refused
from testbed.control_plane import ControlPlane

JOBS = "/apis/kubeflow.org/v1"
#: What a server answers that is busy, or has just been told of another definition of a kind.
PATIENCE = 429
#: Where the objects live that a job may own, or that matter to it.
PREFIXES = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "events": "/api/v1",
    "resourcequotas": "/api/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
}


class Api:
    """A connection pool to a control plane; `session` is for whoever wants more than `call`."""

    def __init__(self, plane: ControlPlane) -> None:
        keys = plane.authority.folder
        context = ssl.create_default_context(cafile=str(plane.authority.certificate))
        context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
        self.url = plane.url
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=None)
        self.session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=True, read_bufsize=2**20
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        await asyncio.sleep(0.3)  # for goodbyes by TLS

    async def call(
        self, verb: str, path: str, body: object = None, kind: str = "application/json", within: float = 30
    ) -> dict:
        """One request, made again for as long as the server asks for patience; the parsed answer, or `Refused`."""
        data = None if body is None else orjson.dumps(body)
        async with asyncio.timeout(within):
            while True:
                try:
                    return await self._exchange(verb, path, data, kind)
                except Refused as refused:
                    if refused.code != PATIENCE:
                        raise
                await asyncio.sleep(0.5)

    async def _exchange(self, verb: str, path: str, data: bytes | None, kind: str) -> dict:
        headers = {"Content-Type": kind}
        async with self.session.request(verb, self.url + path, data=data, headers=headers) as answer:
            content = await answer.read()
            found = orjson.loads(content) if content[:1] == b"{" else {"message": content.decode(errors="replace")}
            if answer.status >= 400:
                raise Refused(answer.status, found.get("message", ""))
            return found

    async def merge(self, path: str, patch: Mapping[str, object]) -> dict:
        """Merge a patch into an object."""
        return await self.call("PATCH", path, patch, MERGE)

    @asynccontextmanager
    async def stream(self, path: str, **words: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer without an end, whose connection is cut off: a server that hangs says no goodbye by TLS."""
        async with self.session.get(self.url + path, **words) as answer:
            try:
                yield answer
            finally:
                if answer.connection and answer.connection.transport:
                    answer.connection.transport.abort()

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of a watch, until it ends."""
        async with self.stream(path, params=query) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, "watch")
            async for line in split(answer.content):
                yield line


async def split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The whole lines of a stream."""
    rest = b""
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line


def where(plural: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    """The path of an object, of a kind in a namespace, or of a kind everywhere."""
    within = f"/namespaces/{namespace}" if namespace else ""
    parts = (plural, name, sub)
    return PREFIXES.get(plural, JOBS) + within + "".join(f"/{part}" for part in parts if part)

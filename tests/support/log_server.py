"""A kubelet that serves nothing but logs, to the API server: each container says a line every some seconds."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Self

from aiohttp import web

from testbed.certificates import Authority
from testbed.ports import free_port

from .background import InBackground
from .user_client import UserClient

HOST = "127.0.0.1"
#: The text that a container has printed since it was first read: by the number of its lines so far.
Script = Callable[[str, int], str]


class LogServer(InBackground):
    """Serves the logs of all pods of a node; `open` is the number of those that are followed."""

    def __init__(self, user: UserClient, node: str, script: Script, every: float) -> None:
        self.open = self.most_open = 0
        self._script, self._every = script, every
        self._port = free_port()
        status = {
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
        }
        user.call("POST", "/api/v1/nodes", {"metadata": {"name": node}, "status": status})

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._log)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(Path(folder))
            authority.make()
            authority.sign("kubelet", "kubelet", hosts=(HOST,))
            tls = authority.server_tls("kubelet")
        await web.TCPSite(self._runner, HOST, self._port, ssl_context=tls, backlog=2048).start()
        return self

    async def __aexit__(self, *_: object) -> None:
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

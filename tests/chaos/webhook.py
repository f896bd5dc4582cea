"""An admission webhook for the pods of a namespace, or its statuses: late, with changes, or now and then not at all."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from support import UserClient
from support.background import in_background
from testbed.certificates import Authority
from testbed.control_plane import ControlPlane

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
#: Which writes the API server asks about.
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
STATUSES = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["*/status"]}


class Webhook:
    """Allows every write after `delay` seconds; answers 500 instead when `fails` is true of its number, from 1.

    `changes` are operations of JSON Patch on each object. With `denies` it denies all with this HTTP code.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.delay = 0.0
        self.fails: Callable[[int], bool] = lambda _number: False
        self.changes: list[dict[str, Any]] = []
        self.denies = 0

    @classmethod
    @contextmanager
    def start(cls, plane: ControlPlane, user: UserClient, rule: dict[str, Any] = NEW_PODS) -> Iterator[Webhook]:
        """One that the API server asks about these writes in the user's namespace."""
        webhook = cls()
        with in_background(webhook._served(plane.authority)) as port:
            user.call("POST", CONFIGURATIONS, _configuration(plane.authority, user.namespace, port, rule))
            time.sleep(1.5)  # the API server reads its configurations once a second
            try:
                yield webhook
            finally:
                user.call("DELETE", f"{CONFIGURATIONS}/{user.namespace}")

    @asynccontextmanager
    async def _served(self, authority: Authority) -> AsyncIterator[int]:
        authority.sign("webhook", "webhook", hosts=("127.0.0.1",))
        context = authority.server_tls("webhook")
        server = web.Server(self._answer, access_log=None)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=context)
        yield listener.sockets[0].getsockname()[1]
        listener.close()
        await server.shutdown(1)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        review = await request.json()
        self.asked += 1
        failed = self.fails(self.asked)
        await asyncio.sleep(self.delay)
        if failed:
            return web.json_response({}, status=500)
        allowed = {"uid": review["request"]["uid"], "allowed": not self.denies, "status": {"code": self.denies}}
        patch = {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(self.changes).encode()).decode()}
        return web.json_response({**review, "request": None, "response": allowed | (patch if self.changes else {})})


def _configuration(authority: Authority, namespace: str, port: int, rule: dict[str, Any]) -> dict:
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    hook = {
        "name": "pods.test.example",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": namespace}, "webhooks": [hook]}

"""A user's requests to a real API server, blocking or async; only kubeconfigs are read as the operator reads them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
import urllib3

from trainshed.client.kubeconfig import find_credentials

from .audit import api_fields
from .jobs import KINDS

GROUP = "/apis/kubeflow.org/v1"
MERGE = "application/merge-patch+json"
#: The status of a server that is busy, or has just got another definition of a kind.
BUSY = HTTPStatus.TOO_MANY_REQUESTS
#: Those of one that does not know the version from which a watch is to begin: an old one, or one to come.
UNKNOWN_VERSION = (HTTPStatus.GONE, HTTPStatus.GATEWAY_TIMEOUT)
#: The API groups of jobs and of the objects that tests read.
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


class Refused(Exception):
    """The API server has rejected a request: `code` is the HTTP status, the text its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code

    @property
    def problem(self) -> str:
        """The text without the kind of an invalid value, "object", which Kubernetes 1.30 names."""
        return str(self).replace('Invalid value: "object": ', "Invalid value: ")


class UserClient:
    """Requests with the credentials of a kubeconfig, in one namespace; `group` is where the jobs are."""

    def __init__(self, kubeconfig: Path, namespace: str, group: str = GROUP) -> None:
        credentials = find_credentials(str(kubeconfig))
        self.kubeconfig, self.namespace = kubeconfig, namespace
        self._group = group
        self._server = credentials.server
        self._http = urllib3.PoolManager(maxsize=64, retries=False, timeout=30, ssl_context=credentials.tls())

    @classmethod
    def somewhere(cls, kubeconfig: Path, group: str = GROUP, *, named: str = "t") -> Self:
        """One in a new namespace with a random suffix: a test may be rerun."""
        user = cls(kubeconfig, f"{named}-{uuid.uuid4().hex[:8]}", group)
        user.make_namespace()
        return user

    def call(self, verb: str, path: str, body: object = None, kind: str = "application/json") -> dict:
        """One request; the parsed response, or `Refused`."""
        data = None if body is None else json.dumps(body)
        response = self.send(verb, path, data, kind)
        return _parsed(response.status, response.data)

    def send(
        self, verb: str, path: str, data: str | None = None, kind: str = "application/json"
    ) -> urllib3.BaseHTTPResponse:
        """One request with the body as it is; the response, whatever its status."""
        return self._http.request(verb, self._server + path, body=data, headers={"Content-Type": kind})

    def find(self, path: str) -> dict | None:
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise

    def serves(self, path: str) -> bool:
        """Return whether the server has a kind of objects at this path."""
        try:
            return "items" in self.call("GET", path)
        except Refused:
            return False

    def make_namespace(self) -> None:
        """Create the user's own namespace."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        eventually(lambda: self.find(f"{self._core('serviceaccounts')}/default"), 30)

    def create(self, job: dict) -> dict:
        return self.call("POST", self._jobs(job["kind"]), job)

    def job(self, kind: str, name: str) -> dict | None:
        return self.find(f"{self._jobs(kind)}/{name}")

    def jobs(self, kind: str) -> list[dict]:
        return self.call("GET", self._jobs(kind))["items"]

    def patch_job(self, kind: str, name: str, patch: dict) -> dict:
        return self.call("PATCH", f"{self._jobs(kind)}/{name}", patch, MERGE)

    def delete_job(self, kind: str, name: str) -> None:
        self.call("DELETE", f"{self._jobs(kind)}/{name}")

    def delete_jobs(self) -> None:
        for kind in KINDS:
            self.call("DELETE", self._jobs(kind))

    def core(self, plural: str) -> list[dict]:
        """All objects of a core kind, such as `pods`."""
        return self.call("GET", self._core(plural))["items"]

    def pods(self, job: str = "") -> list[dict]:
        """The pods, or those of one job by its label, in the order of their names."""
        label = f"?labelSelector=training.kubeflow.org/job-name={job}" if job else ""
        return sorted(self.call("GET", self._core("pods") + label)["items"], key=lambda pod: pod["metadata"]["name"])

    def pod(self, name: str) -> dict | None:
        return self.find(f"{self._core('pods')}/{name}")

    def refusal(self, path: str, body: dict) -> str:
        """Why the API server would not create this object at a path of a collection; nothing if it would."""
        try:
            self.call("POST", f"{path}?dryRun=All", body)
        except Refused as refused:
            return str(refused)
        return ""

    def make(self, plural: str, body: dict) -> dict:
        return self.call("POST", self._core(plural), body)

    def delete(self, plural: str, name: str, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.call("DELETE", f"{self._core(plural)}/{name}", options)

    def set_pod_status(self, name: str, status: dict) -> None:
        self.call("PATCH", f"{self._core('pods')}/{name}/status", {"status": status}, MERGE)

    def bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.call("POST", f"{self._core('pods')}/{name}/binding", body)

    def conditions(self, kind: str, name: str) -> dict[str, dict]:
        """The conditions of a job by their type; none while the job or its status is missing.

        What is stored beside the conditions is added as `Blocked`, and as the condition that announces the end.
        """
        found = (self.job(kind, name) or {}).get("status", {})
        return {one["type"]: one for one in api_fields.conditions(found)}

    def state(self, kind: str, name: str) -> str:
        """Return the column STATE of `kubectl get`."""
        return (self.job(kind, name) or {}).get("status", {}).get("state", "")

    def events(self, job: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the events of a job, oldest first."""
        found = [event for event in self.core("events") if event["involvedObject"]["name"] == job]
        found.sort(key=lambda event: event["firstTimestamp"] or event["metadata"]["creationTimestamp"])
        return [(event["type"], event["reason"], event["message"]) for event in found]

    def holder(self) -> str:
        """The holder of the operator's Lease in this namespace, or nothing."""
        lease = self.find(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/trainshed")
        return (lease or {"spec": {}})["spec"].get("holderIdentity") or ""

    def path(self, kind: str, name: str, subresource: str = "") -> str:
        """Return the path of a job, or of its `status` or `scale`."""
        return "/".join(part for part in (self._jobs(kind), name, subresource) if part)

    def _jobs(self, kind: str) -> str:
        return f"{self._group}/namespaces/{self.namespace}/{kind.lower()}s"

    def _core(self, plural: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}"


class AsyncClient:
    """The same without blocking: a connection pool with the credentials of a kubeconfig, for all namespaces."""

    def __init__(self, kubeconfig: Path) -> None:
        credentials = find_credentials(str(kubeconfig))
        self.url = credentials.server
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.tls() or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            read_bufsize=2**20,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        await asyncio.sleep(0.3)  # TLS connections close after this

    async def call(
        self, verb: str, path: str, body: object = None, kind: str = "application/json", within: float = 30
    ) -> dict:
        """One request, repeated while the server is busy; the parsed response, or `Refused`."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": kind}
        async with asyncio.timeout(within):
            while True:
                async with self.session.request(verb, self.url + path, data=data, headers=headers) as response:
                    content = await response.read()
                if response.status != BUSY:
                    return _parsed(response.status, content)
                await asyncio.sleep(0.5)

    async def merge(self, path: str, patch: Mapping[str, object]) -> dict:
        return await self.call("PATCH", path, patch, MERGE)

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response without an end; its connection is aborted, because a server that hangs does not close TLS."""
        async with self.session.get(self.url + path, **options) as response:
            try:
                yield response
            finally:
                if response.connection and response.connection.transport:
                    response.connection.transport.abort()

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of a watch, until it ends."""
        async with self.stream(path, params=query) as response:
            if response.status >= 400:
                raise Refused(response.status, "watch")
            async for line in split(response.content):
                yield line

    async def changes(self, path: str, version: str = "") -> AsyncIterator[tuple[str, dict]]:
        """The type and the object of each change, from a version on; after an outage it goes on where it was.

        It ends if the server does not know that version any more. Without a version it begins, then and at first, with
        what there is: a store may have been put back to an earlier version.
        """
        while True:
            query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                try:
                    async with contextlib.aclosing(self.lines(path, query)) as lines:
                        async for line in lines:
                            event = orjson.loads(line)
                            if event["type"] == "ERROR":
                                return
                            version = version and event["object"]["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                yield event["type"], event["object"]
                except Refused as refused:
                    if refused.code in UNKNOWN_VERSION:
                        return
            await asyncio.sleep(0.2)


async def split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The whole lines of a stream."""
    rest = b""
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line


def where(plural: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    """Return the path of an object, of a kind in a namespace, or of a kind in all namespaces."""
    within = f"/namespaces/{namespace}" if namespace else ""
    parts = (plural, name, sub)
    return PREFIXES.get(plural, GROUP) + within + "".join(f"/{part}" for part in parts if part)


def eventually(question: Callable[[], object], within: float = 10, every: float = 0.05) -> object:
    """The first true answer; fails with the last one once the time is up. Who waits for long asks less often."""
    begun = time.monotonic()
    answer = question()
    while not answer and (waited := time.monotonic() - begun) < within:
        time.sleep(max(every, min(waited / 20, 0.25)))
        answer = question()
    assert answer, f"not within {within} s; the last answer was {answer!r}"
    return answer


def always(question: Callable[[], object], during: float = 1, every: float = 0.1) -> None:
    """The answer is true, and stays so for a while; for what must not happen."""
    end = time.monotonic() + during
    while time.monotonic() < end:
        answer = question()
        assert answer, f"not any more: {answer!r}"
        time.sleep(every)


def _parsed(status: int, content: bytes) -> dict:
    try:
        found = json.loads(content)
    except ValueError:
        found = {"message": content.decode(errors="replace")}
    if status >= 400:
        raise Refused(status, found.get("message", ""))
    return found

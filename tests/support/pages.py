"""A page over the server in memory: jobs with statuses of a test's own, and requests as a browser sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp

from trainshed.client.job_reader import JobReader
from trainshed.client.transport import RestClient, Transport
from trainshed.decisions import ring
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.built_in import BUILT_IN, job_resource
from trainshed.memory.in_process import MemoryTransport
from trainshed.memory.server import Server
from trainshed.ui.access import Access
from trainshed.ui.application import Site, Sources, served
from trainshed.ui.asked_stacks import ReadStacks
from trainshed.ui.feed import Feed
from trainshed.ui.model import JobsPlace

from .jobs import smallest

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = "2026-01-01T11:50:00Z"
OWN_FIELDS = ("Blocked", "Stalled")
PLURALS = {framework.kind: framework.plural for framework in FRAMEWORKS}


class Jobs:
    """Jobs on a server in memory, in namespace `ml` or others, and a feed that reads them all."""

    def __init__(
        self, now: Callable[[], datetime] = lambda: NOW, transport: Callable[[Server], Transport] = MemoryTransport
    ) -> None:
        resources = (*BUILT_IN, *map(job_resource, FRAMEWORKS))
        self.server = Server(lambda: now().timestamp(), resources, history=500)
        self.server.make_namespace("ml")
        self.transport = transport(self.server)
        self.reader = JobReader(RestClient(self.transport))
        self.feed = Feed(self.reader, "", now)

    def create(self, kind: str, name: str) -> str:
        """Create the smallest job of a kind; return its uid."""
        return self.ask("POST", jobs_path(kind), smallest(kind, name))["metadata"]["uid"]

    def create_pod(self, body: dict, namespace: str = "ml") -> dict:
        return self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def annotate(self, kind: str, name: str, annotations: dict[str, str]) -> None:
        self.ask("PATCH", jobs_path(kind, name), {"metadata": {"annotations": annotations}})

    def keep_decisions(self, uid: str, parts: dict[str, str], verb: str = "POST", namespace: str = "ml") -> None:
        """Create the ConfigMap of the decisions about a job with these parts, or change it with another verb."""
        name = ring.name_of(uid)
        path = f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if verb != "POST" else "")
        self.ask(verb, path, {"metadata": {"name": name}, "binaryData": parts})

    def state(self, kind: str, name: str, state: str, message: str = "", **status: object) -> None:
        """Set the status: a condition, and more fields."""
        changed = {"status": "True", "message": message, "reason": state, "lastTransitionTime": SINCE}
        own = {state.lower(): changed} if state in OWN_FIELDS else {}
        conditions = [{"type": "Running" if own else state, **changed}]
        body = {"status": {"conditions": conditions, **own, **status}}
        self.ask("PATCH", f"{jobs_path(kind, name)}/status", body)

    def delete(self, kind: str, name: str) -> None:
        self.ask("DELETE", jobs_path(kind, name), {})

    def ask(self, verb: str, path: str, body: dict) -> dict:
        """Return the answer to a user's request."""
        return self.server.request("user", verb, path, body=body)


def jobs_path(kind: str, name: str = "", namespace: str = "ml") -> str:
    """Return the path of a job, or of all jobs of a kind."""
    return f"/apis/kubeflow.org/v1/namespaces/{namespace}/{PLURALS[kind]}" + (f"/{name}" if name else "")


def pod_of(name: str, uid: str, replica: str, **spec: object) -> dict:
    """Return the pod of a replica, such as `worker-1`, of a PyTorchJob with this name and uid."""
    role, _, index = replica.rpartition("-")
    labels = {"job-name": name, "replica-type": role, "replica-index": index}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name, "uid": uid, "controller": True}
    metadata = {
        "name": f"{name}-{replica}",
        "labels": {f"training.kubeflow.org/{key}": value for key, value in labels.items()},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": {"containers": [{"name": "pytorch", "image": "x"}], **spec}}


@asynccontextmanager
async def opened(
    jobs: Jobs, *, may_change: bool = False, stacks: ReadStacks | None = None
) -> AsyncIterator[tuple[Site, aiohttp.ClientSession]]:
    """Serve the pages of jobs, without following them; requests have no session yet, and follow no redirects."""
    site = Site(jobs.feed, Access(may_change=may_change), JobsPlace("here"), Sources(stacks=stacks))
    async with (
        served(site, 0),
        aiohttp.ClientSession(site.access.origins[0], cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
    ):
        yield site, browser

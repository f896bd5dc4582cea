"""A page over the server in memory: jobs with statuses of a test's own, and requests as a browser sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp

from support.jobs import smallest
from trainshed.client.job_reader import JobReader
from trainshed.client.transport import RestClient
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

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = "2026-01-01T11:50:00Z"
JOBS = "/apis/kubeflow.org/v1/namespaces/ml"
OWN_FIELDS = ("Blocked", "Stalled")
PLURALS = {framework.kind: framework.plural for framework in FRAMEWORKS}


class Jobs:
    """Jobs on a server in memory, and a feed that reads them."""

    def __init__(self, namespace: str = "") -> None:
        self.server = Server(NOW.timestamp, (*BUILT_IN, *map(job_resource, FRAMEWORKS)), history=500)
        self.server.make_namespace("ml")
        self.reader = JobReader(RestClient(MemoryTransport(self.server)))
        self.feed = Feed(self.reader, namespace, lambda: NOW)

    def create(self, kind: str, name: str) -> str:
        """Create the smallest job of a kind; return its uid."""
        return self._ask("POST", f"{JOBS}/{PLURALS[kind]}", smallest(kind, name))["metadata"]["uid"]

    def create_pod(self, body: dict) -> None:
        self._ask("POST", "/api/v1/namespaces/ml/pods", body)

    def annotate(self, kind: str, name: str, annotations: dict[str, str]) -> None:
        self._ask("PATCH", f"{JOBS}/{PLURALS[kind]}/{name}", {"metadata": {"annotations": annotations}})

    def keep_decisions(self, uid: str, parts: dict[str, str], verb: str = "POST") -> None:
        """Create the ConfigMap of the decisions about a job with these parts, or change it with another verb."""
        name = ring.name_of(uid)
        path = "/api/v1/namespaces/ml/configmaps" + (f"/{name}" if verb != "POST" else "")
        self._ask(verb, path, {"metadata": {"name": name}, "binaryData": parts})

    def state(self, kind: str, name: str, state: str, message: str = "", **status: object) -> None:
        """Set the status: a condition, and more fields."""
        changed = {"status": "True", "message": message, "reason": state, "lastTransitionTime": SINCE}
        own = {state.lower(): changed} if state in OWN_FIELDS else {}
        conditions = [{"type": "Running" if own else state, **changed}]
        body = {"status": {"conditions": conditions, **own, **status}}
        self._ask("PATCH", f"{JOBS}/{PLURALS[kind]}/{name}/status", body)

    def delete(self, kind: str, name: str) -> None:
        self._ask("DELETE", f"{JOBS}/{PLURALS[kind]}/{name}", {})

    def _ask(self, verb: str, path: str, body: dict) -> dict:
        return self.server.request("user", verb, path, body=body)


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

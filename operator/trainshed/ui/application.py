"""The server of the page: which page is at which path, what is sent when something changes, and the files beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import msgspec
from aiohttp import web
from htpy import Renderable, a

from .access import Access, add_headers, guard, without_token
from .asked_decisions import AskedDecisions, ReadDecisions
from .asked_stacks import AskedStacks, ReadStacks
from .base_path import own_path
from .changes import Changes
from .cluster_logs import ApiLogs
from .cluster_reading import ClusterReader, Examine
from .cluster_routes import ClusterRoutes
from .feed import Feed
from .listening import STATIC, listening
from .live import Update, follow
from .local_words import local_story
from .log_routes import LogRoutes
from .model import Address, JobFile, JobsPlace, PageFrame
from .pages import actions, decisions_page, job, job_yaml, jobs, layout, ranks, stacks_page
from .pages.job_head import DECISIONS, STACKS
from .replica_logs import ReplicaLogs
from .stories import Stories

LOOPBACK = "127.0.0.1"
#: How forms of the page are sent, and the most bytes of one.
FORM, MOST_FORM = "application/x-www-form-urlencoded", 16 * 1024
#: Seconds that requests have when the server ends.
GRACE = 0.5
#: The path of one job, to which its pages add.
JOB = "/jobs/{namespace}/{kind}/{name}"
#: A page of one job, and the part of it that is sent when the job changes; both are given the query of the URL.
JobPage = Callable[[JobFile, PageFrame, Mapping[str, str]], Renderable]
JobPart = Callable[[JobFile, datetime, Mapping[str, str]], Renderable]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a site reads what is not in its feed.

    `logs` are from the cluster unless others are given; `examine` looks at the operator, if there is one. `stacks`
    reads those of a job; without it there is no page for them. `decisions` are, as the logs, from the
    cluster unless others are given.
    """

    logs: ReplicaLogs | None = None
    examine: Examine | None = None
    stacks: ReadStacks | None = None
    decisions: ReadDecisions | None = None


class Site:
    """All pages over one feed; those of a run on this machine have no page of a cluster."""

    def __init__(
        self,
        feed: Feed,
        access: Access,
        place: JobsPlace,
        sources: Sources | None = None,
    ) -> None:
        sources = sources or Sources()
        self.feed, self.access, self.place = feed, access, place
        self.stories = Stories(feed, local_story if place.local else None)
        self.changes = Changes(feed) if access.may_change else None
        self.stacks = AskedStacks(feed, sources.stacks) if sources.stacks else None
        self.decisions = AskedDecisions(feed, sources.decisions)
        self.logs = LogRoutes(feed, sources.logs or ApiLogs(feed.reader), self.frame)
        self.cluster = ClusterRoutes(feed, ClusterReader(feed.reader, feed.namespace, sources.examine), self.frame)

    def frame(self, live: str = "") -> PageFrame:
        """Return what surrounds a page that is drawn now; `live` is the path of its changes."""
        revision = self.feed.revision
        joint = "&" if "?" in live else "?"
        return PageFrame(
            now=self.feed.now(),
            place=self.place.name,
            namespace=self.feed.namespace,
            notices=self.feed.notices(),
            revision=revision,
            is_known=self.feed.synced.is_set(),
            live=f"{live}{joint}since={revision}" if live else "",
            csrf=self.access.csrf if self.changes or self.stacks else "",
            may_change=self.changes is not None,
            reads_stacks=self.stacks is not None,
            program=self.place.program,
            local=self.place.local,
        )

    def application(self) -> web.Application:
        """Return the application with all routes."""
        app = web.Application(middlewares=[guard(self.access, self.refused)], client_max_size=MOST_FORM)
        app.on_response_prepare.append(add_headers)
        for path, view in VIEWS.items():
            if not (self.place.local and path in OF_CLUSTERS):
                app.router.add_get(path, partial(view, self))
        app.router.add_static("/static", STATIC)
        if self.stacks:
            own = partial(self.job, page=stacks_page.page), partial(self.job_live, part=stacks_page.live)
            path = f"{JOB}{STACKS}"
            app.add_routes([web.get(path, own[0]), web.get(f"{path}/live", own[1]), web.post(path, self.read_stacks)])
        if self.changes:
            app.add_routes([web.post(f"{JOB}/{{action:{'|'.join(actions.ACTIONS)}}}", self.act)])
        return app

    async def act(self, request: web.Request) -> web.Response:
        """Do what a form asks for, and lead back to the page of the job."""
        address = address_in(request)
        if not await self._is_own_form(request):
            return self.refused(request)
        file = self.feed.file(address)
        if file is None or self.changes is None:
            return answer(self.unknown(address), 404)
        if problem := await self.changes.act(file, request.match_info["action"]):
            return answer(actions.refusal(file, self.frame(), problem), 409)
        return web.Response(status=303, headers={"Location": address.path})

    async def read_stacks(self, request: web.Request) -> web.Response:
        """Read the stacks of a job, and lead to the page of them."""
        address = address_in(request)
        if not await self._is_own_form(request):
            return self.refused(request)
        file = self.feed.file(address)
        if file is None or self.stacks is None:
            return answer(self.unknown(address), 404)
        await self.stacks.ask(file)
        return web.Response(status=303, headers={"Location": f"{address.path}{STACKS}"})

    async def _is_own_form(self, request: web.Request) -> bool:
        form = await request.post() if request.content_type == FORM else {}
        return self.access.is_own_form(request, str(form.get("csrf", "")))

    async def _file(self, address: Address) -> JobFile | None:
        """Return all that is known of a job."""
        file = await self.stories.file(address)
        stacks = self.stacks.of(address) if self.stacks else None
        return msgspec.structs.replace(file, stacks=stacks) if file and stacks else file

    async def jobs(self, request: web.Request) -> web.Response:
        """Answer with the page of jobs."""
        filters = jobs.filters_of(request.query)
        return answer(jobs.page(self.feed.files(), filters, self.frame(f"/live{filters.query()}")))

    async def jobs_live(self, request: web.Request) -> web.StreamResponse:
        """Send the rows that change."""
        filters = jobs.filters_of(request.query)
        there = set[Address]()  # what the browser has a row of

        async def draw(update: Update, since: int) -> None:
            files, now = self.feed.files(), self.feed.now()
            passed = jobs.chosen(files, filters)
            shown = passed[: jobs.MOST_ROWS]
            known = set(there) or {file.address for file in shown}
            names = {file.address for file in self.feed.changed(since)}
            there.clear()
            for file in shown:
                there.add(file.address)
                if file.address in names or file.address not in known:
                    update.row(file.address.element, jobs.row(file, now))
            update.order("rows", [file.address.element for file in shown])
            update.element("counts", jobs.counts(files, filters))
            update.element("empty", jobs.beside(files, passed=len(passed), is_known=self.feed.synced.is_set()))
            update.element("notices", layout.notices(self.feed.notices()))
            update.texts(jobs.ages(shown, now))

        return await follow(request, self.feed, draw)

    async def job(self, request: web.Request, *, page: JobPage) -> web.Response:
        """Answer with a page of one job."""
        address = address_in(request)
        file = await self._file(address)
        if file is None:
            return answer(self.unknown(address), 404)
        query = f"?{request.query_string}" if request.query_string else ""
        return answer(page(file, self.frame(f"{own_path(request)}/live{query}"), request.query))

    async def job_live(self, request: web.Request, *, part: JobPart) -> web.StreamResponse:
        """Send the part of a page of one job that changes, whenever it does."""
        address = address_in(request)

        async def draw(update: Update, since: int) -> None:
            del since
            update.element("notices", layout.notices(self.feed.notices()))
            if file := await self._file(address):
                update.element("live", part(file, self.feed.now(), request.query))
                if forms := actions.forms(file, self.frame()):
                    update.element("actions", forms)

        return await follow(request, self.feed, draw)

    async def job_logs(self, request: web.Request) -> web.Response:
        """Answer with the logs of a job."""
        address = address_in(request)
        file = self.feed.file(address)
        return await self.logs.page(file, request) if file else answer(self.unknown(address), 404)

    async def job_logs_live(self, request: web.Request) -> web.StreamResponse:
        """Send the logs of a job."""
        return await self.logs.live(address_in(request), request)

    async def job_decisions(self, request: web.Request) -> web.Response:
        """Answer with a decision about a job; where the slider leads to is the address of a decision."""
        address = address_in(request)
        file = self.feed.file(address)
        if file is None:
            return answer(self.unknown(address), 404)
        pod = decisions_page.pod_of(request.query)
        found = await self.decisions.about(file, pod)
        if decisions_page.STEP in request.query and found.steps:
            step = found.steps[decisions_page.place_of(found, request.query)]
            return web.Response(status=303, headers={"Location": decisions_page.query_of(step, pod)})
        return answer(decisions_page.page(file, self.frame(), found, request.query))

    async def cluster_page(self, request: web.Request) -> web.Response:
        """Answer with the page of the cluster."""
        return await self.cluster.page(request)

    async def cluster_live(self, request: web.Request) -> web.StreamResponse:
        """Send what changes on the page of the cluster."""
        return await self.cluster.live(request)

    def unknown(self, address: Address) -> Renderable:
        """Return the page about a job that is not known."""
        text = f"There is no {address.kind} {address.name} in namespace {address.namespace}, or it may not be read."
        return layout.message(self.frame(), "No such job", text, a(href="/")["All jobs"])

    def refused(self, request: web.Request) -> web.Response:
        """Return the answer to who has no session; if the browser has one, the link in it is enough."""
        program = self.place.program
        text = (
            f"Open the link that {program} has printed: it opens this page once, in one browser. For another one "
            f"press Enter in the terminal where {program} runs."
        )
        known = a(href=without_token(request))["Go on"]
        title = "This page is for who has started it"
        if "token" in request.query:
            title = "This link was used before, or a newer one has replaced it"
        frame = PageFrame(self.feed.now(), program=program, local=self.place.local)
        return answer(layout.message(frame, title, text, ["Opened before in this browser? ", known]), 403)


#: What can be read at each path.
View = Callable[[Site, web.Request], Awaitable[web.StreamResponse]]
VIEWS: Mapping[str, View] = {
    "/": Site.jobs,
    "/live": Site.jobs_live,
    JOB: partial(Site.job, page=job.page),
    f"{JOB}/live": partial(Site.job_live, part=job.live),
    f"{JOB}/ranks": partial(Site.job, page=ranks.page),
    f"{JOB}/ranks/live": partial(Site.job_live, part=ranks.live),
    f"{JOB}/yaml": partial(Site.job, page=job_yaml.page),
    f"{JOB}/yaml/live": partial(Site.job_live, part=job_yaml.live),
    f"{JOB}{DECISIONS}": Site.job_decisions,
    f"{JOB}/logs": Site.job_logs,
    f"{JOB}/logs/live": Site.job_logs_live,
    "/cluster": Site.cluster_page,
    "/cluster/live": Site.cluster_live,
}
#: Those that there are not for a run on a machine.
OF_CLUSTERS = ("/cluster", "/cluster/live")


def address_in(request: web.Request) -> Address:
    """Return the job that the path of a request names."""
    found = request.match_info
    return Address(found["namespace"], found["kind"].lower(), found["name"])


def answer(page: Renderable, status: int = 200) -> web.Response:
    """Return a page as an answer."""
    return web.Response(text=str(page), status=status, content_type="text/html", charset="utf-8")


@asynccontextmanager
async def served(site: Site, port: int) -> AsyncIterator[None]:
    """Serve the pages on the loopback address, at a free port if it is 0; raises `OSError`."""
    async with listening(site.application(), LOOPBACK, port, GRACE) as site.access.port:
        yield

"""The address of the cluster's page, and what is sent while it is open."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from htpy import Element

from trainshed.views import story

from .base_path import own_path
from .cluster_reading import ClusterReader
from .device_use import devices
from .feed import Feed
from .live import Update, follow
from .model import JobFile, PageFrame
from .pages import cluster_page, jobs, layout
from .pages.cluster_page import MOST_JOBS, ClusterView, NeedyJob
from .seen_facts import facts_of

#: The chapter of a story that says what to do.
ADVICE = "What to do"


class ClusterRoutes:
    """The page of a cluster over a feed; `frame` returns what surrounds a page with this path of its changes."""

    def __init__(self, feed: Feed, cluster: ClusterReader, frame: Callable[[str], PageFrame]) -> None:
        self._feed, self._cluster, self._frame = feed, cluster, frame
        self._advice: dict[str, tuple[int, tuple[str, ...]]] = {}

    async def page(self, request: web.Request) -> web.Response:
        """Answer with the page."""
        frame = self._frame(f"{own_path(request)}/live")
        text = str(cluster_page.page(await self._view(), frame))
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Send the content when it changes."""

        async def draw(update: Update, since: int) -> None:
            del since
            update.element("notices", layout.notices(self._feed.notices()))
            update.element("live", await self._drawn())

        return await follow(request, self._feed, draw)

    async def _drawn(self) -> Element:
        return cluster_page.live(await self._view(), self._feed.now())

    async def _view(self) -> ClusterView:
        cluster, files = await self._cluster.read(), self._feed.files()
        needy = [file for file in jobs.chosen(files, jobs.Filters()) if file.state in cluster_page.NEEDING]
        worst = needy[:MOST_JOBS]
        known = {file.address.element for file in worst}
        self._advice = {name: found for name, found in self._advice.items() if name in known}
        return ClusterView(
            cluster,
            devices(self._feed.pods().values(), cluster.offers),
            [NeedyJob(file, self._advised(file)) for file in worst],
            cluster_page.needing(files),
            has_operator=self._cluster.has_operator,
            is_known=self._feed.synced.is_set(),
        )

    def _advised(self, file: JobFile) -> tuple[str, ...]:
        """Return what `trainshed explain` says to do, from what is known of a job without a request."""
        name, revision = file.address.element, self._feed.revision_of(file.address)
        known, advice = self._advice.get(name, (-1, ()))
        if known == revision:
            return advice
        whole = self._feed.file(file.address)
        facts = facts_of(whole, self._feed.now()) if whole else None
        chapters = story.tell(facts, whole.document).chapters if whole and facts else ()
        advice = next((chapter.lines for chapter in chapters if chapter.title == ADVICE), ())
        self._advice[name] = revision, advice
        return advice

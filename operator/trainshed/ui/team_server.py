"""The server of the page for a team: each request is answered with the pages of its user, below a path of the proxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Generic, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from trainshed.process import Clock

from .access import HEADERS, content_security_policy
from .base_path import BASE, with_base
from .listening import STATIC, listening
from .model import PageFrame
from .pages import layout
from .proxy_headers import ActingUser, ProxyHeaders, RequestRefused
from .team import Team

#: The page of the jobs of one namespace, for menus that put the namespace into a path.
OF_NAMESPACE = "/namespaces/{namespace}"
#: Whose request it is.
IDENTITY = web.RequestKey("identity", ActingUser)
#: Seconds that requests have when the server ends.
GRACE = 2.0
log = logging.getLogger(__name__)

SiteT = TypeVar("SiteT")
#: What is at a path of a site.
View = Callable[[SiteT, web.Request], Awaitable[web.StreamResponse]]
Views = Mapping[str, Callable[[SiteT, web.Request], Awaitable[web.StreamResponse]]]
#: The host, None for all interfaces, and the port.
BindAddress = tuple[str | None, int]


class TeamSettings(msgspec.Struct, frozen=True):
    """How the proxy serves the pages: whose requests, below which path, without its last `/`, and in whose frames.

    `namespace` is the one that is shown if none is asked for; empty for all.
    """

    headers: ProxyHeaders
    namespace: str = ""
    base: str = ""
    frame_ancestors: tuple[str, ...] = ()


class TeamServer(Generic[SiteT]):
    """Answers the requests that the proxy sends on with the pages at the paths of `views`."""

    def __init__(self, team: Team[SiteT], views: Views[SiteT], settings: TeamSettings) -> None:
        self._team, self._views, self._settings = team, views, settings
        ancestors = " ".join(settings.frame_ancestors)
        self._headers = HEADERS | {"Content-Security-Policy": content_security_policy(ancestors or "'none'")}
        if ancestors:
            del self._headers["X-Frame-Options"]

    def application(self) -> web.Application:
        """Return the application with the routes of all pages."""
        app = web.Application(middlewares=[self._refusals])
        app.on_response_prepare.append(self._add_headers)
        base = app[BASE] = self._settings.base
        for path, view in self._views.items():
            app.router.add_get(base + path, partial(self._answer, view))
        app.router.add_get(base + OF_NAMESPACE, partial(self._answer, self._views["/"]))
        app.router.add_static(f"{base}/static", STATIC)
        return app

    async def _answer(self, view: View[SiteT], request: web.Request) -> web.StreamResponse:
        """Answer with a page as the user of the request may see it."""
        namespace = request.match_info.get("namespace", request.query.get("namespace", request.query.get("ns", "")))
        async with self._team.read(request[IDENTITY], namespace or self._settings.namespace) as site:
            asked = request
            if namespace and "name" not in request.match_info:
                asked = request.clone(rel_url=request.rel_url.update_query(namespace=namespace))
            return await view(site, asked)

    @web.middleware
    async def _refusals(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            # Also for files and paths that do not exist.
            request[IDENTITY] = self._settings.headers.identity(request.method, request.headers)
            response = await handler(request)
        except RequestRefused as refused:
            page = layout.message(PageFrame(Clock().now()), str(refused.status.phrase), str(refused))
            response = web.Response(text=str(page), status=refused.status, content_type="text/html")
        if isinstance(response, web.Response) and response.content_type == "text/html" and response.text:
            response.text = with_base(response.text, self._settings.base)
        return response

    @asynccontextmanager
    async def served(self, address: BindAddress, probes: BindAddress) -> AsyncIterator[None]:
        """Serve the pages, and whether the process answers at another address; raises `OSError`."""
        health = web.Application()
        for path in ("/healthz", "/readyz"):
            health.router.add_get(path, _ok)
        async with (
            listening(self.application(), *address, GRACE, "--bind-address") as port,
            listening(health, *probes, GRACE, "--health-probe-bind-address") as probe_port,
        ):
            log.info(
                "serving the page at port %d below %s/ for the proxy, and probes at port %d",
                port,
                self._settings.base,
                probe_port,
            )
            keeping = asyncio.create_task(self._team.run())
            try:
                yield
            finally:
                keeping.cancel()
                await self._team.close()

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        del request
        response.headers.update(self._headers)
        response.headers.pop("Server", None)


async def _ok(request: web.Request) -> web.Response:
    del request
    return web.Response(text="ok\n")

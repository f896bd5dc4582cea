"""Who may see the page: the browser that has opened the printed link, from the page itself and from nowhere else."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware


def content_security_policy(frame_ancestors: str) -> str:
    """Return the policy by which only the page's own files are loaded; `frame_ancestors` may show it in a frame."""
    own = (f"{what}-src 'self'" for what in ("script", "style", "img", "connect", "font"))
    ends = ("form-action 'self'", f"frame-ancestors {frame_ancestors}", "base-uri 'none'")
    return "; ".join(("default-src 'none'", *own, *ends))


#: A link that is used once, and what is kept in the browser for it; the most browsers that are known at a time.
TOKEN_BYTES, MOST_SESSIONS = 32, 32

HEADERS = {
    "Content-Security-Policy": content_security_policy("'none'"),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers say of forms that they come from nowhere
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: The paths that need no session: they are the same for all.
PUBLIC = "/static/"
#: The method by which a browser follows a link: what only looks at one, such as a preview, does not use it up.
ENTERS = "GET"
#: Where a request of the page itself, or one that the user has typed, comes from (Fetch Metadata).
OWN_SITES = ("same-origin", "none")


class Access:
    """Sessions of one server on the loopback address; `port` is set once it is known.

    Without `may_change` the page has no way to change anything.
    """

    def __init__(self, *, may_change: bool = False) -> None:
        self.may_change, self.port = may_change, 0
        self.csrf = secrets.token_urlsafe(TOKEN_BYTES)
        self._token: str | None = None
        self._sessions: list[str] = []

    @property
    def origins(self) -> tuple[str, str]:
        """The origins by which the page is reached."""
        return f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers do not tell ports apart, so the name does."""
        return f"trainshed-{self.port}"

    def new_link(self, path: str = "/") -> str:
        """Return a link that opens the page once; the one before it is worth nothing any more."""
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        return f"{self.origins[0]}{path}?token={self._token}"

    def enter(self, token: str) -> str:
        """Return a new session for the token of a link, which is used up; empty if it is not the token."""
        if self._token is None or not _same(token, self._token):
            return ""
        self._token = None
        self._sessions = [*self._sessions[1 - MOST_SESSIONS :], secrets.token_urlsafe(TOKEN_BYTES)]
        return self._sessions[-1]

    def knows(self, request: web.Request) -> bool:
        """Return whether a request has a session, and comes from the page or from the user."""
        if request.headers.get("Sec-Fetch-Site", "none") not in OWN_SITES:
            return False
        if request.headers.get("Origin", self.origins[0]) not in self.origins:
            return False
        given = request.cookies.get(self.cookie, "")
        found = [_same(given, session) for session in self._sessions]
        return any(found)

    def is_addressed(self, request: web.Request) -> bool:
        """Return whether the Host is this server: a name of others that leads here is DNS rebinding."""
        return f"http://{request.headers.get('Host', '')}" in self.origins

    def is_own_form(self, request: web.Request, csrf: str) -> bool:
        """Return whether a form comes from a page of this server."""
        return request.headers.get("Origin", "") in self.origins and _same(csrf, self.csrf)


def guard(access: Access, refused: Callable[[web.Request], web.Response]) -> Middleware:
    """Return the middleware that lets only those in who have a session, and exchanges a token for one.

    `refused` makes the answer to the others.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not access.is_addressed(request):
            return web.Response(status=421, text="This server is reached by 127.0.0.1 or localhost only.\n")
        if request.path.startswith(PUBLIC):
            return await handler(request)
        if request.method == ENTERS and (token := request.query.get("token", "")):
            return _entered(access, request, token) or refused(request)
        if not access.knows(request):
            return refused(request)
        return await handler(request)

    return middleware


def _entered(access: Access, request: web.Request, token: str) -> web.Response | None:
    """Return the way to the page without the token, with a session if there is none yet; None for a wrong token."""
    session = access.enter(token)
    if not session and not access.knows(request):
        return None
    response = web.Response(status=303, headers={"Location": without_token(request)})
    if session:
        response.set_cookie(access.cookie, session, httponly=True, samesite="Strict", path="/")
    return response


def without_token(request: web.Request) -> str:
    """Return where a request without its token leads: always to a path of this server.

    What begins with two slashes, of either kind, is the name of another server for browsers.
    """
    url = request.rel_url.without_query_params("token")
    path = "/" + url.raw_path.lstrip("/\\")
    return f"{path}?{url.raw_query_string}" if url.raw_query_string else path


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that every answer has, also errors and streams."""
    del request
    response.headers.update(HEADERS)
    response.headers.pop("Server", None)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())

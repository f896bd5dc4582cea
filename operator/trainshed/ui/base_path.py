"""The path below which a proxy serves the pages: put before the links of a page that is drawn without it."""

from __future__ import annotations

import re

from aiohttp import web

#: Of an application: the base of its pages.
BASE = web.AppKey("base", str)
#: A link of an attribute to another path of the server. In texts and values `"` is written as an entity, so that these
#: characters in this order are only ever an attribute; in JSON a backslash is before the quotation mark.
LINK = re.compile(r'(?<=[\s"])((?:href|src|action|data-live)=\\?")/(?!/)')


def with_base(text: str, base: str) -> str:
    """Return HTML, or JSON with HTML in it, with a base such as `/trainshed` before each path; empty for none."""
    return LINK.sub(rf"\g<1>{base}/", text) if base else text


def own_path(request: web.Request) -> str:
    """Return the path of a request without the base."""
    return request.path.removeprefix(request.app.get(BASE, ""))

"""A file from a URL: https only, also after redirects, and of limited size and duration."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

SCHEME = "https://"
#: The schemes for which a file name is taken for a URL; all but the first are refused.
SCHEMES = (SCHEME, "http://", "ftp://")
#: The most bytes, and the most seconds from the first name look-up to the last byte.
LARGEST, LONGEST = 8 << 20, 30.0
#: Types of content that are no YAML: the page around a file instead of the file.
PAGES = ("text/html", "application/xhtml+xml")

NOT_SENT = "a name or a password, which is not sent; read the file with another program, and use `-f -`"


class DownloadError(Exception):
    """A URL is refused, or cannot be read; the message says why."""


def is_url(name: str) -> bool:
    """Return whether a file name is a URL."""
    return name.lower().startswith(SCHEMES)


def download(url: str, seconds: float = LONGEST) -> str:
    """Return the text at a URL; raises `DownloadError`.

    A thread reads it, because the time-outs of a connection are those of one read: a server that sends a byte now and
    then would never end.
    """
    if not is_secure(url):
        raise DownloadError("only https:// is read: with others, everyone on the way can change the file")
    if url != without_login(url):
        raise DownloadError(f"it has {NOT_SENT}")
    found: list[str | Exception] = []
    reader = threading.Thread(target=lambda: found.append(_result(url, seconds)), daemon=True)
    reader.start()
    reader.join(seconds)
    if not found:
        raise DownloadError(f"it takes longer than {seconds:.0f} seconds; read it with another program, and use `-f -`")
    if isinstance(found[0], Exception):
        cause = getattr(found[0], "reason", found[0])  # of an URLError
        raise DownloadError(getattr(cause, "strerror", None) or str(found[0])) from found[0]
    return found[0]


def without_login(url: str) -> str:
    """Return a URL as it may be printed: without a name and a password."""
    return re.sub(r"(?<=://)[^/?#]*@", "", url)


def is_secure(url: str) -> bool:
    """Return whether a URL has a scheme that proves where the content comes from."""
    return url.lower().startswith(SCHEME)


def _result(url: str, seconds: float) -> str | Exception:
    from http.client import HTTPException  # noqa: PLC0415 - it takes long, and only URLs need it

    try:
        return _read(url, seconds)
    except (OSError, HTTPException, ValueError, DownloadError) as error:  # an URLError is an OSError
        return error


def _read(url: str, seconds: float) -> str:
    with _opener().open(url, timeout=seconds) as response:
        kind = response.headers.get_content_type()
        if kind in PAGES:
            raise DownloadError(f"it is a page ({kind}), not YAML; use the URL of the raw file")
        content = response.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DownloadError(f"it has more than {LARGEST >> 20} MiB")
    if response.length:  # which `read` only compares if it is not limited itself
        raise DownloadError(f"the connection has ended {response.length} bytes before the end of the file")
    try:
        return str(content.decode())
    except UnicodeDecodeError as error:
        raise DownloadError(f"it is not text in UTF-8: {error}") from error


def _opener() -> OpenerDirector:
    from urllib.request import HTTPRedirectHandler, Request, build_opener  # noqa: PLC0415 - as above

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> Request | None:  # noqa: ANN401 - urllib's own
            *_, target = arguments
            if not is_secure(target):
                raise DownloadError(f"it is redirected to {without_login(target)}, and only https:// is read")
            if target != without_login(target):
                raise DownloadError(f"it is redirected to {without_login(target)} with {NOT_SENT}")
            return super().redirect_request(*arguments)

    return build_opener(Redirects)

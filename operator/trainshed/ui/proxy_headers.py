"""Whose request it is, by what an authenticating proxy says in headers; the page itself asks for no password.

A client that reaches the server past the proxy can say to be any user. A NetworkPolicy or the secret of the proxy
prevents that.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec
from multidict import CIMultiDictProxy

from trainshed.client.credentials import Headers

#: The header in which the proxy sends its secret.
SECRET_HEADER = "X-Trainshed-Proxy-Secret"  # noqa: S105 # nosec B105 - its name
#: The most characters of the name of a user or a group, and groups of a user: directories know thousands.
MOST_CHARACTERS, MOST_GROUPS = 256, 512
#: Kubernetes' own users and groups, such as system:masters: no directory of people has them.
RESERVED = "system:"
#: What a request may do: the page changes nothing.
METHODS = ("GET", "HEAD")


class RequestRefused(Exception):
    """A request is not answered; the message says why, in a sentence for its sender."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ActingUser(msgspec.Struct, frozen=True):
    """As whom the API server is asked; with an empty `user` as the server's own service account."""

    user: str = ""
    groups: tuple[str, ...] = ()

    def headers(self) -> Headers:
        """Return the headers by which requests act as this user."""
        if not self.user:
            return ()
        return (("Impersonate-User", self.user), *(("Impersonate-Group", group) for group in self.groups))


class ProxyHeaders(msgspec.Struct, frozen=True):
    """Which headers the proxy sets. Without `user_header` all requests are read with the server's own rights."""

    user_header: str = ""
    groups_header: str = ""
    secret_file: Path | None = None

    def identity(self, method: str, headers: CIMultiDictProxy[str]) -> ActingUser:
        """Return whose request it is; raises `RequestRefused`."""
        if method not in METHODS:
            raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, "This page can only be read.")
        self._check_secret(headers)
        if headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and headers.get("Sec-Fetch-Mode") != "navigate":
            raise RequestRefused(HTTPStatus.FORBIDDEN, "Pages of others may link to this one, and read nothing of it.")
        if not self.user_header:
            return ActingUser()
        return ActingUser(_user(headers.getall(self.user_header, [])), tuple(self._groups(headers)))

    def _check_secret(self, headers: CIMultiDictProxy[str]) -> None:
        if self.secret_file is None:
            return
        try:
            known = self.secret_file.read_bytes().strip()
        except OSError:
            known = b""
        if not known:
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "The secret of the proxy cannot be read.")
        given = headers.getall(SECRET_HEADER, [])
        if len(given) != 1 or not hmac.compare_digest(given[0].encode(errors="replace"), known):
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"Only the proxy is answered, which sends {SECRET_HEADER}.")

    def _groups(self, headers: CIMultiDictProxy[str]) -> Iterator[str]:
        values = headers.getall(self.groups_header, []) if self.groups_header else []
        names = dict.fromkeys(name for value in values for part in value.split(",") if (name := part.strip()))
        if len(names) > MOST_GROUPS or not all(map(_is_name, names)):
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"{self.groups_header} has groups that cannot be sent on.")
        return (name for name in names if not name.startswith(RESERVED))


def _user(values: list[str]) -> str:
    if not values or not values[0]:
        raise RequestRefused(HTTPStatus.UNAUTHORIZED, "The proxy has not said who asks.")
    if len(values) > 1:
        raise RequestRefused(
            HTTPStatus.FORBIDDEN, "Two users are named: the proxy must replace the header, and not add one."
        )
    (name,) = values
    if not _is_name(name) or name.startswith(RESERVED):
        raise RequestRefused(HTTPStatus.FORBIDDEN, "This is not the name of a person.")
    return name


def _is_name(text: str) -> bool:
    return len(text) <= MOST_CHARACTERS and text.isprintable() and text == text.strip()

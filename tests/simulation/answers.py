"""What a server says no with: the HTTP status, the reason in one word, and a sentence."""

from __future__ import annotations

from typing import Any

import orjson


class Refusal(Exception):
    """A no of the server's; `more` are further fields of the Status, `wait` is the text of `Retry-After`."""

    def __init__(self, code: int, reason: str, message: str, wait: str = "", **more: Any) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.wait = wait
        self.more = more

    @property
    def status(self) -> dict[str, Any]:
        """As a document of the kind Status."""
        metadata = self.more.get("metadata", {})
        said = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        return {**said, "message": self.message, "reason": self.reason, "code": self.code}

    @property
    def content(self) -> bytes:
        """As it is sent."""
        if "text" in self.more:
            return str(self.more["text"]).encode()
        return orjson.dumps(self.status)


def missing(plural: str, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(404, "NotFound", f'{plural} "{name}" not found')


def unknown_path() -> Refusal:
    """There is no such kind of object."""
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def unknown_group() -> Refusal:
    """There is no such group of kinds: nobody is there to say it in a document."""
    text = "404 page not found\n"
    return Refusal(404, "", text, text=text)


def exists(plural: str, name: str) -> Refusal:
    """There is an object of that name."""
    return Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')


def conflict(plural: str, name: str, why: str) -> Refusal:
    """The object is another than was thought."""
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def changed(plural: str, name: str) -> Refusal:
    """The object has a newer version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, name, why)


def forbidden(plural: str, name: str, why: str) -> Refusal:
    """The server understood and will not."""
    return Refusal(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}')


def invalid(kind: str, name: str, why: str) -> Refusal:
    """The object can never be accepted as it is."""
    return Refusal(422, "Invalid", f'{kind} "{name}" is invalid: {why}')


def bad(why: str) -> Refusal:
    """The request makes no sense."""
    return Refusal(400, "BadRequest", why)


def expired(message: str, token: str = "") -> Refusal:
    """The version asked for is gone; with a token a list may go on without being of one version."""
    return Refusal(410, "Expired", message, metadata={"continue": token} if token else {})

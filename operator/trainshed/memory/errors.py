"""The errors of the API server: an HTTP status, a reason, and a message."""

from __future__ import annotations

from typing import Any

import orjson


class StatusError(Exception):
    """An error response; `more` are further fields of the Status, `wait` is the value of `Retry-After`."""

    def __init__(self, code: int, reason: str, message: str, wait: str = "", **more: object) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.wait = wait
        self.more = more

    @property
    def status(self) -> dict[str, Any]:
        """Return it as a document of the kind Status."""
        metadata: object = self.more.get("metadata", {})
        head = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        return {**head, "message": self.message, "reason": self.reason, "code": self.code}

    @property
    def content(self) -> bytes:
        """Return the body of the response."""
        if "text" in self.more:
            return str(self.more["text"]).encode()
        return orjson.dumps(self.status)


def not_found(plural: str, name: str) -> StatusError:
    """Return 404: there is no such object."""
    return StatusError(404, "NotFound", f'{plural} "{name}" not found')


def unknown_path() -> StatusError:
    """Return 404: there is no such resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def unknown_group() -> StatusError:
    """Return 404: there is no such API group; the response is plain text."""
    text = "404 page not found\n"
    return StatusError(404, "", text, text=text)


def already_exists(plural: str, name: str) -> StatusError:
    """Return 409: an object of this name exists."""
    return StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists')


def conflict(plural: str, name: str, why: str) -> StatusError:
    """Return 409: the object does not match a precondition."""
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def changed(plural: str, name: str) -> StatusError:
    """Return 409: the object has a newer version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, name, why)


def forbidden(plural: str, name: str, why: str) -> StatusError:
    """Return 403."""
    return StatusError(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}')


def invalid(kind: str, name: str, why: str) -> StatusError:
    """Return 422: the object fails validation."""
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {why}')


def bad_request(why: str) -> StatusError:
    """Return 400."""
    return StatusError(400, "BadRequest", why)


def expired(message: str, start: str = "") -> StatusError:
    """Return 410: the version is compacted; `start` is the token that continues a list at the current version."""
    return StatusError(410, "Expired", message, metadata={"continue": start} if start else {})

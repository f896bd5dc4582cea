"""A request of the operator to the API server, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qs, urlsplit

import orjson

WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Request:
    """One request; `number` is its place among the writes in its namespace, from 1, or 0 for a read."""

    verb: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    at: float = 0.0

    @cached_property
    def query(self) -> dict[str, str]:
        """The query string, the last value of each name."""
        return {key: values[-1] for key, values in parse_qs(urlsplit(self.path).query).items()}

    @cached_property
    def parts(self) -> tuple[str, str, str, str]:
        """Namespace, plural, name and subresource, as far as the path has them."""
        words = urlsplit(self.path).path.strip("/").split("/")
        rest = words[2:] if words[0] == "api" else words[3:]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, sub = (*rest, "", "", "")[:3]
        return namespace, plural, name, sub

    @property
    def namespace(self) -> str:
        """The namespace; empty for all of them."""
        return self.parts[0]

    @property
    def plural(self) -> str:
        return self.parts[1]

    @cached_property
    def name(self) -> str:
        """The object's name, from the path or the body."""
        if self.parts[2] or not self.body:
            return self.parts[2]
        return orjson.loads(self.body).get("metadata", {}).get("name", "")

    @property
    def writes(self) -> bool:
        """True if it may change an object other than a Lease, which is renewed at intervals."""
        return self.verb in WRITES and self.plural != "leases"

    @property
    def watches(self) -> bool:
        return "watch" in self.query

    @property
    def lists(self) -> bool:
        return self.verb == "GET" and not self.parts[2] and not self.watches

    @property
    def by_kopf(self) -> bool:
        """True if kopf sent it: the operator decides nothing by the response."""
        return "kopf" in self.headers.get("User-Agent", "")

    def __str__(self) -> str:
        _, plural, _, sub = self.parts
        what = f"{plural}/{sub}" if sub else plural
        # The name of an Event ends in a random suffix.
        return f"{self.verb} {what} {self.name.partition('.')[0] if plural == 'events' else self.name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response to the operator; `cut` aborts it after that many bytes of the body, -1 before a response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    cut: int | None = None


def refusal(code: int, reason: str, message: str = "injected by the test", **headers: str) -> Answer:
    """Return an error of the API server; in the names of headers `_` stands for `-`."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    body = orjson.dumps(said | {"reason": reason, "message": message})
    return Answer(code, body, JSON | {name.replace("_", "-"): value for name, value in headers.items()})

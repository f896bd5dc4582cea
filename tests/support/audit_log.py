"""The requests of a user, from the audit log of the API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from testbed.control_plane import ControlPlane

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request that has been answered; `what` is its verb, resource and subresource, `code` the HTTP status."""

    what: str
    namespace: str
    name: str
    code: int
    began: datetime
    ended: datetime

    @property
    def at(self) -> float:
        """When it began, in seconds since 1970."""
        return self.began.timestamp()

    @property
    def writes(self) -> bool:
        return self.what.split()[0] in WRITES


def requests(plane: ControlPlane, user: str, namespace: str = "") -> list[Request]:
    """A user's requests so far in one namespace, or everywhere, in the order in which they ended; watches left out."""
    found = []
    for entry in entries(plane.audit_log):
        if entry["user"].get("username") != user or entry["verb"] == "watch" or entry["stage"] != "ResponseComplete":
            continue
        target = entry.get("objectRef") or {}
        if namespace in ("", target.get("namespace")):
            found.append(_request(entry, target))
    return found


def entries(audit_log: Path) -> Iterator[dict]:
    """All entries so far, as they are."""
    for line in audit_log.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the last one is not complete yet
            return


def _request(entry: dict, target: dict) -> Request:
    resource = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
    return Request(
        f"{entry['verb']} {resource}",
        target.get("namespace", ""),
        target.get("name", ""),
        entry.get("responseStatus", {}).get("code", 0),
        datetime.fromisoformat(entry["requestReceivedTimestamp"]),
        datetime.fromisoformat(entry["stageTimestamp"]),
    )

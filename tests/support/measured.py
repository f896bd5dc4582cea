"""The requests of an operator, from the audit log, and its use of CPU and memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .audit_log import entries
from .operator import Operator
from .process_usage import cpu, rss

#: The operator's own user, by which its requests are identified.
USER = "trainshed-operator"


class Measured:
    """An operator, with its requests to the API server."""

    def __init__(self, operator: Operator, audit: Path) -> None:
        self.operator = operator
        self._audit = audit

    def requests(self, namespace: str = "") -> Counter[str]:
        """Return how many requests of each sort have ended, as `verb resource`; watches count when they begin."""
        found: Counter[str] = Counter()
        for entry in entries(self._audit):
            target = entry.get("objectRef") or {}
            if entry["user"]["username"] != USER or (namespace and target.get("namespace") != namespace):
                continue
            resource = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
            if entry["verb"] != "watch" or entry["stage"] == "ResponseStarted":
                found[f"{entry['verb']} {resource}"] += 1
        return found

    def cpu(self) -> float:
        """Seconds of CPU that the operator has used so far."""
        return cpu(self.operator.pid)

    def memory(self) -> float:
        """MiB that the operator holds now."""
        return rss(self.operator.pid)

"""What an operator has asked of the API server, by its audit log, and what it has used of the machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .audit_log import entries
from .operator import Operator
from .process_usage import cpu, rss

#: The operator's user, which tells its requests from all others.
USER = "trainshed-operator"


class Measured:
    """The operator, and what it has asked of the API server."""

    def __init__(self, operator: Operator, audit: Path) -> None:
        self.operator = operator
        self._audit = audit

    def requests(self, namespace: str = "") -> Counter[str]:
        """How many requests of each sort have ended so far, as `verb resource`; watches are counted when they begin."""
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

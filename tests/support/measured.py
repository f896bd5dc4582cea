"""What an operator has asked of the API server, by its audit log, and what it has used of the machine."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from .operator import Operator

#: Who the operator is to the API server, so that its requests can be told from everybody else's.
USER = "trainshed-operator"


class Measured:
    """The operator, and what it has asked of the API server."""

    def __init__(self, operator: Operator, audit: Path) -> None:
        self.operator = operator
        self._audit = audit

    def requests(self, namespace: str = "") -> Counter[str]:
        """How many requests of each sort have ended so far, as `verb resource`; watches are counted when they begin."""
        found: Counter[str] = Counter()
        for line in self._audit.read_text().splitlines():
            entry = json.loads(line)
            target = entry.get("objectRef") or {}
            if entry["user"]["username"] != USER or (namespace and target.get("namespace") != namespace):
                continue
            resource = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
            if entry["verb"] != "watch" or entry["stage"] == "ResponseStarted":
                found[f"{entry['verb']} {resource}"] += 1
        return found

    def cpu(self) -> float:
        """Seconds of CPU that the operator has used so far."""
        fields = Path(f"/proc/{self.operator.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def memory(self) -> int:
        """MiB that the operator holds now."""
        lines = Path(f"/proc/{self.operator.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024

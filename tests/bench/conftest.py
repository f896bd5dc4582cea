"""A control plane with an audit log, and the operator as a user of its own, so that its requests can be told apart."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import Hand, Operator
from rig.planes import ready_control_plane

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


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The control plane."""
    with ready_control_plane(tmp_path_factory.mktemp("bench")) as plane:
        yield plane


@pytest.fixture(scope="session")
def measured(plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """The operator, leader election and all."""
    kubeconfig = plane.kubeconfig_for(USER, ("system:masters",))
    operator = Operator(kubeconfig, tmp_path_factory.mktemp("operator")).start()
    yield Measured(operator, plane.audit_log)
    operator.stop()


@pytest.fixture
def hand(plane) -> Hand:
    """A user's hand in a namespace of its own."""
    hand = Hand(plane.kubeconfig, f"b-{uuid.uuid4().hex[:8]}")
    hand.make_namespace()
    return hand

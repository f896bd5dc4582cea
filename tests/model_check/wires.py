"""The network of a small world: whatever matters is a message of its own."""

from __future__ import annotations

from simulation.faults import Fate, Passage
from trainshed.client.transport import Request

#: What does not wait on the table, as nothing is decided by it.
ASIDE = ("events", "services", "configmaps", "horizontalpodautoscalers")


class Wires:
    """Sends everything that matters as a message of its own; speaks `sim.faults.Weather`."""

    def __init__(self, eager: bool) -> None:
        self._fate = Fate(before=0.001, after=0.0 if eager else 0.001)

    def exchange(self, process: str, request: Request) -> Fate:
        """A message, or at once."""
        del process
        return Fate(before=0.0, after=0.0) if _aside(request.path) or "watch" in request.query else self._fate

    def line(self, process: str, path: str, line: bytes) -> Passage:
        """A message."""
        del process, line
        return Passage(0.0 if _aside(path) else 0.001)


def _aside(path: str) -> bool:
    return any(f"/{plural}" in path for plural in ASIDE)

"""Which pods have failed: each is news once, also to a process that comes after the one that saw it fail."""

from __future__ import annotations

from trainshed.api.pod import Phase
from trainshed.api.snapshot import Snapshot

from .view import Key


class Losses:
    """Remembers the failed pods of each job for as long as they are there."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, frozenset[str]]] = {}

    def news(self, key: Key, snapshot: Snapshot) -> int:
        """How many pods have failed since the last look at the job."""
        failed = frozenset(pod.uid for pod in snapshot.pods if pod.phase is Phase.FAILED)
        uid, before = self._known.get(key, ("", frozenset()))
        self._known[key] = (snapshot.job.uid, failed)
        return len(failed - before) if uid == snapshot.job.uid else _untold(snapshot)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._known.pop(key, None)


def _untold(snapshot: Snapshot) -> int:
    """How many of the failed pods the stored status does not tell of: it has given them up or counts them."""
    status = snapshot.status
    attempts = {role.lower(): attempt for role, attempt in status.attempts.items()}
    current = [
        pod
        for pod in snapshot.pods
        if pod.phase is Phase.FAILED and pod.uid not in status.replacing and pod.attempt == attempts.get(pod.role, 0)
    ]
    return max(0, len(current) - sum(tally.failed for tally in status.tallies.values()))

"""Counts failed pods: each one once, even if another process was the leader when it failed."""

from __future__ import annotations

from trainshed.api.actions import Snapshot
from trainshed.api.objects import Phase

from .view import Key


class Losses:
    """Remembers the failed pods of each job while they exist."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, frozenset[str]]] = {}

    def news(self, key: Key, snapshot: Snapshot) -> int:
        """Return how many pods have failed since the last reconcile of the job."""
        failed = frozenset(pod.uid for pod in snapshot.pods if pod.phase is Phase.FAILED)
        uid, before = self._known.get(key, ("", frozenset()))
        self._known[key] = (snapshot.job.uid, failed)
        return len(failed - before) if uid == snapshot.job.uid else _uncounted(snapshot)

    def forget(self, key: Key) -> None:
        """Forget a deleted job."""
        self._known.pop(key, None)


def _uncounted(snapshot: Snapshot) -> int:
    """Return how many failed pods the stored status does not yet count or give up."""
    status = snapshot.status
    attempts = {role.lower(): attempt for role, attempt in status.attempts.items()}
    current = [
        pod
        for pod in snapshot.pods
        if pod.phase is Phase.FAILED and pod.uid not in status.replacing and pod.attempt == attempts.get(pod.role, 0)
    ]
    return max(0, len(current) - sum(tally.failed for tally in status.tallies.values()))

"""How long jobs wait until all of their pods run: from their creation, or from when they were resumed."""

from __future__ import annotations

from datetime import datetime

from trainshed.api.pod import Phase
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Kind, Status

from .course import became
from .view import Key

#: A pod in one of these has come to run.
UP = (Phase.RUNNING, Phase.SUCCEEDED)


class Startups:
    """Remembers since when the jobs wait whose beginning this process has seen; of all others it has nothing to say."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def stored(self, key: Key, snapshot: Snapshot, after: Status) -> None:
        """A status was stored in the place of the snapshot's."""
        before = snapshot.status
        if after.over or after.true(Kind.SUSPENDED):
            self.forget(key)
        elif before.true(Kind.SUSPENDED):
            self._since[key] = snapshot.now
        elif became(Kind.CREATED, before, after):
            self._since[key] = snapshot.job.created or snapshot.now

    def news(self, key: Key, snapshot: Snapshot) -> float | None:
        """After how many seconds all pods of a job have come to run, the first time that they do."""
        since = self._since.get(key)
        if since is None or sum(pod.phase in UP for pod in snapshot.pods) < snapshot.job.size:
            return None
        self.forget(key)
        return max(0.0, (snapshot.now - since).total_seconds())

    def forget(self, key: Key) -> None:
        """The job is gone, or has nothing to wait for."""
        self._since.pop(key, None)

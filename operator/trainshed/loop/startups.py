"""Startup times: from the creation or resumption of a job until all its pods run."""

from __future__ import annotations

from datetime import datetime

from trainshed.api.actions import Snapshot
from trainshed.api.objects import Phase
from trainshed.api.status import ConditionType, Status

from .course import became
from .view import Key

#: The phases of a pod that has started.
UP = (Phase.RUNNING, Phase.SUCCEEDED)


class Startups:
    """Remembers the start of the jobs that this process saw start; other jobs are not measured."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def stored(self, key: Key, snapshot: Snapshot, after: Status) -> None:
        """Record the start, or its end, from a stored status."""
        before = snapshot.status
        if after.over or after.true(ConditionType.SUSPENDED):
            self.forget(key)
        elif before.true(ConditionType.SUSPENDED):
            self._since[key] = snapshot.now
        elif became(ConditionType.CREATED, before, after):
            self._since[key] = snapshot.job.created or snapshot.now

    def news(self, key: Key, snapshot: Snapshot) -> float | None:
        """Return the startup time in seconds when all pods run for the first time, else None."""
        since = self._since.get(key)
        if since is None or sum(pod.phase in UP for pod in snapshot.pods) < snapshot.job.size:
            return None
        self.forget(key)
        return max(0.0, (snapshot.now - since).total_seconds())

    def forget(self, key: Key) -> None:
        """Forget a job that is deleted or not starting."""
        self._since.pop(key, None)

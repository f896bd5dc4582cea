"""What the reconciler, the executor and the worker report, for metrics."""

from __future__ import annotations

from typing import Protocol

from trainshed.api.actions import Action, Snapshot
from trainshed.api.job import JobKey
from trainshed.api.status import Status
from trainshed.client import ApiError


class Observer(Protocol):
    """Is called for everything that is counted or measured."""

    def observe_reconcile(self, seconds: float) -> None:
        """Observe the duration of a reconcile."""

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Observe the job at the start of a reconcile, which may yet fail."""

    def forget(self, key: JobKey) -> None:
        """Forget a deleted job."""

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Count what changed between the snapshot's status and the stored one."""

    def count_action(self, snapshot: Snapshot, action: Action, *, success: bool) -> None:
        """Count an action that succeeded or failed."""

    def count_error(self, error: ApiError) -> None:
        """Count a reconcile that failed with this error."""

    def count_internal_error(self) -> None:
        """Count a reconcile that failed with an internal error."""

    def count_rejected_status(self, snapshot: Snapshot) -> None:
        """Count a status update of this job that the API server rejected."""

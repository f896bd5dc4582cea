"""What the reconciler, the executor and the worker report, for metrics."""

# ruff: noqa: ARG002 - what is not counted is ignored

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from trainshed.api.actions import Action, Plan, Snapshot
from trainshed.api.job import JobKey
from trainshed.api.status import Status
from trainshed.client import ApiError


class Observer(Protocol):
    """Is called for everything that is counted or measured; a subclass without a method ignores that."""

    def observe_queue_time(self, seconds: float) -> None:
        """Observe how long a key has waited for a worker."""
        return

    def count_dropped_event(self) -> None:
        """Count an Event that is not written: there are too many."""
        return

    def observe_reconcile(self, seconds: float) -> None:
        """Observe the duration of a reconcile."""
        return

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Observe the job at the start of a reconcile, which may yet fail."""
        return

    def forget(self, key: JobKey, now: datetime) -> None:
        """Forget a job that was deleted, as is known now."""
        return

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Count what changed between the snapshot's status and the stored one."""
        return

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Hear of a plan whose status is stored, or need not be stored yet, before anything else of it is done."""
        return

    def count_action(self, snapshot: Snapshot, action: Action, *, success: bool) -> None:
        """Count an action that succeeded or failed."""
        return

    def count_error(self, error: ApiError) -> None:
        """Count a reconcile that failed with this error."""
        return

    def count_internal_error(self) -> None:
        """Count a reconcile that failed with an internal error."""
        return

    def count_rejected_status(self, snapshot: Snapshot) -> None:
        """Count a status update of this job that the API server rejected."""
        return


class Background(Observer):
    """An observer with work of its own, apart from reconciles, which may read and write."""

    async def run(self) -> None:
        """Do the work, without end."""
        return

    async def finish(self, seconds: float) -> None:
        """Finish what is under way when the process ends; the caller waits for that long."""
        return

    def step_down(self) -> None:
        """Forget what belongs to the leader: another replica leads."""
        return


class Observers(Observer):
    """Tells several observers, in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._all = observers

    def observe_queue_time(self, seconds: float) -> None:
        """Tell all."""
        for one in self._all:
            one.observe_queue_time(seconds)

    def count_dropped_event(self) -> None:
        """Tell all."""
        for one in self._all:
            one.count_dropped_event()

    def observe_reconcile(self, seconds: float) -> None:
        """Tell all."""
        for one in self._all:
            one.observe_reconcile(seconds)

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Tell all."""
        for one in self._all:
            one.on_reconcile(snapshot)

    def forget(self, key: JobKey, now: datetime) -> None:
        """Tell all."""
        for one in self._all:
            one.forget(key, now)

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Tell all."""
        for one in self._all:
            one.on_status_stored(snapshot, after)

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Tell all."""
        for one in self._all:
            one.on_decision(snapshot, plan)

    def count_action(self, snapshot: Snapshot, action: Action, *, success: bool) -> None:
        """Tell all."""
        for one in self._all:
            one.count_action(snapshot, action, success=success)

    def count_error(self, error: ApiError) -> None:
        """Tell all."""
        for one in self._all:
            one.count_error(error)

    def count_internal_error(self) -> None:
        """Tell all."""
        for one in self._all:
            one.count_internal_error()

    def count_rejected_status(self, snapshot: Snapshot) -> None:
        """Tell all."""
        for one in self._all:
            one.count_rejected_status(snapshot)

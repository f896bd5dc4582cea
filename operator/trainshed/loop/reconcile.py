"""Reconcile one job: take a snapshot, plan, store the status, write Events, execute the actions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from trainshed.api import status_codec
from trainshed.api.actions import ApiRefusal, Event, EventType, Plan, Snapshot
from trainshed.api.job import Document, Job
from trainshed.api.objects import is_older
from trainshed.api.status import Status
from trainshed.client import (
    ApiError,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    LabelRemoved,
    NameConflict,
    NotFound,
    StatusRejected,
    Unavailable,
)
from trainshed.client.redaction import redact_error
from trainshed.plan import Planner

from .errands import Errands
from .losses import Losses
from .metrics import Metrics
from .patience import Patience
from .recorder import Recorder
from .rejections import Rejections
from .startups import Startups
from .view import Key, View

#: The maximum number of GETs for disappeared pods, per job and at a time for all jobs: the label is removed either from
#: one pod or from all.
SOUGHT = 32
#: The Event for a status that the API server rejects, followed by the server's message.
REJECTED = "The API server rejects the status of this job; the operator does nothing for the job until it is accepted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a reconcile: when to requeue, a line for the log, and the error that needs a back-off.

    A `known` error was logged before with the same message.
    """

    look_again: datetime | None = None
    told: str = ""
    error: ApiError | None = None
    known: bool = False


class Reconciler:
    """Reconciles jobs, each one in one task at a time.

    A crash at any point loses nothing: what the next reconcile cannot observe is stored in the status before any action
    is taken, and an action that was not executed is planned again.
    """

    def __init__(self, cluster: Client, view: View, recorder: Recorder, metrics: Metrics) -> None:
        self._cluster = cluster
        self._view = view
        self._recorder = recorder
        self._metrics = metrics
        self._errands = Errands(cluster, view, recorder, metrics)
        self._patience = Patience()
        self._losses = Losses()
        self._startups = Startups()
        self._rejections = Rejections()
        self._asking = asyncio.Semaphore(SOUGHT)

    async def look(self, key: Key, now: datetime) -> Outcome:
        """Observe the job, plan, and execute the plan."""
        snapshot = self._view.snapshot(key, now)
        if snapshot is None:
            self._patience.forget(key)
            self._losses.forget(key)
            self._startups.forget(key)
            self._rejections.forget(key)
            return Outcome()
        try:
            if self._view.behind(snapshot):
                await self._catch_up(snapshot)
                fresh = self._view.snapshot(key, now)
                if fresh is None or fresh.job.version != snapshot.job.version:
                    return Outcome(error=Conflict("the job changed while its pods were listed"))
                snapshot = fresh
            planner, hidden = await self._seek(Planner(snapshot))
        except ApiError as error:
            return Outcome(error=error)
        return await self._decide(key, planner, hidden)

    def step_down(self) -> None:
        """Drop the per-job state of a leader; another replica acts and counts now."""
        self._patience, self._losses, self._startups = Patience(), Losses(), Startups()
        self._rejections = Rejections()

    async def _catch_up(self, snapshot: Snapshot) -> None:
        """List the job's pods: the writer of its status may have seen newer pods than the watch delivered."""
        pods, version = await self._cluster.read_pods(snapshot.job.namespace, snapshot.job.name)
        if not self._view.asked(snapshot, pods, version):
            raise Unavailable("the list of pods is older than the cache")

    async def _seek(self, planner: Planner) -> tuple[Planner, LabelRemoved | None]:
        """GET the pods that are missing in the cache: a pod that only the watch lost must not cause a restart."""
        snapshot, names = planner.snapshot, planner.awaited()[:SOUGHT]
        for error in await asyncio.gather(*(self._ask_for(snapshot, name) for name in names)) if names else ():
            if isinstance(error, LabelRemoved):
                return Planner(replace(snapshot, trouble=_trouble(error))), error
            if error:
                raise error
        over = names and snapshot.trouble and snapshot.trouble.hidden
        return (Planner(replace(snapshot, trouble=None)) if over else planner), None

    async def _ask_for(self, snapshot: Snapshot, name: str) -> ApiError | None:
        """GET a pod of the job; return an error if it exists or if the request fails."""
        async with self._asking:
            try:
                await self._cluster.seek_pod(snapshot.job.namespace, name, snapshot.job.uid)
            except ApiError as error:
                return error
        return None

    async def _decide(self, key: Key, planner: Planner, hidden: LabelRemoved | None) -> Outcome:
        snapshot, decision = planner.snapshot, planner.plan()
        self._metrics.died(snapshot, self._losses.news(key, snapshot))
        if (seconds := self._startups.news(key, snapshot)) is not None:
            self._metrics.started(snapshot, seconds)
        try:
            return await self._carry_out(key, snapshot, decision, hidden)
        except NotFound:
            self._view.forget(key, snapshot.job.uid)
            return Outcome(told="the job no longer exists")
        except Conflict as conflict:
            return Outcome(error=await self._read_again(key, snapshot) or conflict)
        except ApiError as error:
            redact_error(error, _user_input(snapshot.job))
            rejected = isinstance(error, StatusRejected)
            return self._rejected(key, snapshot, error) if rejected else Outcome(decision.look_again, error=error)

    async def _carry_out(self, key: Key, snapshot: Snapshot, decision: Plan, hidden: LabelRemoved | None) -> Outcome:
        later = self._patience.until(key, snapshot.status, decision.status, snapshot.now)
        if later or status_codec.same_status(snapshot.status, decision.status):
            await self._prove(snapshot, decision)
        else:
            await self._remember(key, snapshot, decision.status)
        for note in decision.notes:
            self._recorder.tell(snapshot.job, note)
        refused = await self._errands.run(snapshot, decision.actions)
        error = hidden or refused  # a pod without its label is waited for, whatever else failed
        await self._explain(key, snapshot, error)
        times = [time for time in (later, decision.look_again) if time]
        return Outcome(min(times, default=None), _line(snapshot.status, decision, stored=not later), error)

    async def _remember(self, key: Key, snapshot: Snapshot, status: Status) -> None:
        """Store the status in place of the one that was read; raise Conflict if the job changed meanwhile."""
        job = snapshot.job
        patch = status_codec.status_patch(job, snapshot.status, status)
        try:
            document = await self._cluster.store_status(snapshot.framework, job.namespace, job.name, patch)
        except Invalid as error:
            raise StatusRejected(str(error)) from error
        self._rejections.forget(key)
        self._view.stored(key, document)
        self._metrics.stored(snapshot, status)
        self._startups.stored(key, snapshot, status)

    async def _prove(self, snapshot: Snapshot, decision: Plan) -> None:
        """Verify with a GET, before any action, that the job still exists at the cached version."""
        job = snapshot.job
        if not decision.actions:
            return
        document = await self._cluster.read_job(snapshot.framework, job.namespace, job.name)
        if document is None:
            raise NotFound(f"{job.kind} {job.namespace}/{job.name}")
        if document["metadata"]["resourceVersion"] != job.version:
            raise Conflict("the job changed after the cache read it")

    def _rejected(self, key: Key, snapshot: Snapshot, error: ApiError) -> Outcome:
        """Write an Event that the API server rejects the status; without a stored status no action is possible."""
        self._metrics.rejected(snapshot)
        is_new = self._rejections.news(key, str(error))
        if is_new:
            self._recorder.tell(snapshot.job, Event(EventType.WARNING, error.reason, f"{REJECTED}: {error}"))
        return Outcome(error=error, known=not is_new)

    async def _explain(self, key: Key, snapshot: Snapshot, error: ApiError | None) -> None:
        """Store why pods cannot be created, or that they can again; after an unknown outcome change nothing."""
        refused = isinstance(error, (Forbidden, Invalid, NameConflict))
        if error and not refused:
            return
        changed = self._view.trouble(key, _trouble(error), snapshot.now)
        fresh = self._view.snapshot(key, snapshot.now) if changed else None
        if fresh is None:
            return
        status = Planner(fresh).plan().status
        if not (status_codec.same_status(fresh.status, status) or status.must_precede(fresh.status)):
            await self._remember(key, fresh, status)

    async def _read_again(self, key: Key, snapshot: Snapshot) -> ApiError | None:
        """GET the job after a conflict and update the cache; return an error if the request fails."""
        job = snapshot.job
        try:
            document = await self._cluster.read_job(snapshot.framework, job.namespace, job.name)
        except ApiError as error:
            return error
        if document and is_older(document["metadata"]["resourceVersion"], job.version):
            return Unavailable("the response for the job is older than the cache")
        if document is None or self._view.record(document, snapshot.framework).uid != job.uid:
            self._view.forget(key, job.uid)
        if document is not None:
            self._view.read(key, document)
        return None


def _trouble(error: ApiError | None) -> ApiRefusal | None:
    if error is None:
        return None
    return ApiRefusal(error.reason, str(error), (error.pod,) if isinstance(error, LabelRemoved) and error.pod else ())


def _user_input(job: Job) -> Document:
    """Return what the user wrote into the job; an error message about its status may quote any of it."""
    return {"annotations": dict(job.annotations), "templates": [group.template for group in job.replicas]}


def _line(before: Status, decision: Plan, *, stored: bool) -> str:
    """Return a log line with what the reconcile changed; empty if it changed nothing."""
    known = {(condition.type, condition.true) for condition in before.conditions}
    changes = [
        f"{condition.type}={condition.true}"
        for condition in decision.status.conditions
        if stored and (condition.type, condition.true) not in known
    ]
    kinds = [type(action).__name__ for action in decision.actions]
    changes += [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    return ", ".join(changes)

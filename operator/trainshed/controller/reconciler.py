"""Reconciles one job: read the cache, plan, store the status, record Events, execute actions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from trainshed import plan as planner
from trainshed.api import status_codec
from trainshed.api.actions import ApiRefusal, CreatePod, Event, EventType, Plan, SchedulerMessage, Snapshot
from trainshed.api.job import Document, Job, JobKey
from trainshed.api.objects import POD_GROUP, is_older
from trainshed.api.status import Status
from trainshed.client import (
    AdmissionDenied,
    ApiError,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    LabelRemoved,
    NameConflict,
    NotFound,
    StatusRejected,
    StatusReverted,
    Unavailable,
)
from trainshed.client.finalizers import release_unselected
from trainshed.client.flow_control import run_concurrently
from trainshed.client.redaction import redact_error
from trainshed.plan.messages import job_conditions, writes
from trainshed.process import job_fields

from .cache import Cache
from .events import EventRecorder
from .executor import Executor
from .job_errors import may_last
from .node_reports import NodeReports
from .observer import Observer
from .plan_watch import is_role_update
from .result import Result
from .scheduler_messages import SchedulerMessages
from .status_writes import FALSE_CONFLICTS, StatusDebounce, StatusRejections, StatusWrites, reverted_fields

#: The maximum number of GETs for disappeared pods of a job: the label is removed either from one pod or from all.
MAX_POD_LOOKUPS = 32
#: The age until which a job that has not started is taken to exist as the cache has it.
NEW = timedelta(seconds=3)


log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles jobs, each one in one task at a time.

    A crash at any point loses nothing: what the next reconcile cannot observe is stored in the status before any action
    is taken, and an action that was not executed is planned again.
    """

    def __init__(self, client: Client, cache: Cache, recorder: EventRecorder, metrics: Observer) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._metrics = metrics
        self._executor = Executor(client, cache, recorder, metrics, planner.plan)
        self._said = SchedulerMessages(client, cache)
        self._nodes = NodeReports(client)
        self._debounce = StatusDebounce()
        self._rejections = StatusRejections()
        self._statuses = StatusWrites()
        self._uids: dict[JobKey, str] = {}
        #: Called with each job that is reconciled, before it is planned.
        self.watchers: list[Callable[[Snapshot], None]] = []

    async def reconcile(self, key: JobKey, now: datetime) -> Result:
        """Observe the job, plan, and execute the plan."""
        try:
            await self._catch_up(key)
        except ApiError as error:
            return Result(error=error)
        snapshot = self._cache.snapshot(key, now)
        self._forget_others(key, snapshot.job.uid if snapshot else "", now)
        if snapshot is None:
            return Result()
        for saw in self.watchers:
            saw(snapshot)
        try:
            if self._cache.is_stale(snapshot):
                await self._relist_pods(snapshot)
                fresh = self._cache.snapshot(key, now)
                if fresh is None or not _has_status_of(fresh, snapshot):
                    return Result(error=Conflict("the job changed while its pods were listed"))
                snapshot = fresh
            snapshot, plan, hidden = await self._plan(key, snapshot)
        except ApiError as error:
            return Result(error=error)
        return replace(await self._carry_out(key, snapshot, plan, hidden), pods=len(snapshot.pods))

    def step_down(self) -> None:
        """Drop the per-job state of a leader; another replica acts now."""
        self._debounce, self._rejections, self._statuses = StatusDebounce(), StatusRejections(), StatusWrites()
        self._executor.step_down()

    def _forget_others(self, key: JobKey, uid: str, now: datetime) -> None:
        """Forget what is remembered by name of a job that is gone; one with another uid may have its name already."""
        if self._uids.get(key, uid) != uid:
            self._debounce.forget(key)
            self._metrics.forget(key, now)
            self._rejections.forget(key)
            self._statuses.forget(key)
            self._executor.updates.forget(key)
        self._uids[key] = uid
        if not uid:
            del self._uids[key]

    async def _catch_up(self, key: JobKey) -> None:
        """GET a job of which kopf's watch has delivered a version that the operator's own watch has not."""
        if framework := self._cache.behind(key):
            before = self._cache.uid(key)
            document = await self._client.read_job(framework, key.namespace, key.name)
            self._cache.caught_up(key, before, document)

    async def _relist_pods(self, snapshot: Snapshot) -> None:
        """List the job's pods: the writer of its status may have seen newer pods than the watch delivered."""
        pods, version = await self._client.read_pods(snapshot.job.namespace, snapshot.job.name)
        if not self._cache.on_list(snapshot, pods, version):
            raise Unavailable("the list of pods is older than the cache")

    async def _plan(self, key: JobKey, snapshot: Snapshot) -> tuple[Snapshot, Plan, LabelRemoved | None]:
        """Plan; if the plan requires reads from the API server, plan again with their answers.

        Return the snapshot with the answers, the plan, and the error about a pod that exists without its labels.
        """
        plan, hidden = planner.plan(snapshot), None
        if plan.events_to_read:
            message = await self._read_events(key, snapshot, plan.events_to_read)
            snapshot = replace(snapshot, scheduler_message=message)
            plan = planner.plan(snapshot)
        if plan.nodes_to_read:
            snapshot = replace(snapshot, node_reports=await self._nodes.of(plan.nodes_to_read, now=snapshot.now))
            plan = planner.plan(snapshot)
        if plan.pods_to_verify:
            self._cache.left_pods.looks_up(snapshot)
            hidden = await self._verify_pods(snapshot, plan.pods_to_verify[:MAX_POD_LOOKUPS])
            unwatched = self._cache.left_pods.unwatched(snapshot)
            if hidden or (snapshot.refusal and snapshot.refusal.hidden):
                snapshot = replace(snapshot, refusal=_refusal(hidden))
            elif unwatched == snapshot.unwatched:
                return snapshot, plan, None
            snapshot = replace(snapshot, unwatched=unwatched, counted_here=True)
            plan = planner.plan(snapshot)
            hidden = hidden if plan.pods_to_verify else None
        return snapshot, plan, hidden

    async def _verify_pods(self, snapshot: Snapshot, names: Iterable[str]) -> LabelRemoved | None:
        """GET the pods that are missing in the cache: a pod that only the watch lost must not cause a restart."""
        for error in await run_concurrently([partial(self._verify_pod, snapshot, name) for name in names]):
            if isinstance(error, LabelRemoved):
                return error
            if error:
                raise error
        return None

    async def _read_events(self, key: JobKey, snapshot: Snapshot, uid: str) -> SchedulerMessage:
        """Read the Events that may say why a PodGroup waits. An error is no reason not to plan."""
        before = snapshot.scheduler_message
        try:
            text = await self._said.about(uid, snapshot.job.namespace, snapshot.now)
        except ApiError as error:
            level = logging.WARNING if isinstance(error, Forbidden) and before is None else logging.DEBUG
            log.log(level, "%s: cannot read the Events about its %s: %s", key, POD_GROUP, error, extra=job_fields(key))
            text = before.text if before else ""
        message = SchedulerMessage(text, snapshot.now)
        if self._cache.uid(key) == snapshot.job.uid:
            self._cache.scheduler_said(key, message)
        return message

    async def _verify_pod(self, snapshot: Snapshot, name: str) -> ApiError | None:
        """GET a pod of the job; return an error if it exists or if the request fails."""
        try:
            await self._client.seek_pod(snapshot.job.namespace, name, snapshot.job.uid)
        except ApiError as error:
            if isinstance(error, LabelRemoved):
                self._cache.left_pods.sought(snapshot, name, error.pod)
            self._cache.left_pods.found(await release_unselected(self._client, error))
            return error
        self._cache.left_pods.sought(snapshot, name, None)
        return None

    async def _carry_out(self, key: JobKey, snapshot: Snapshot, plan: Plan, hidden: LabelRemoved | None) -> Result:
        self._metrics.on_reconcile(snapshot)
        try:
            result = await self._execute(key, snapshot, plan, hidden)
            self._statuses.settled(key)
        except NotFound:
            self._cache.forget(key, snapshot.job.uid)
            return Result(message="the job no longer exists")
        except Conflict as conflict:
            if self._statuses.is_contested(key):  # it has just been read
                return Result(error=conflict)
            error = await self._refresh_job(key, snapshot) or conflict
            return self._rejected(key, snapshot, error) if isinstance(error, StatusRejected) else Result(error=error)
        except ApiError as error:
            redact_error(error, _user_input(snapshot.job))
            rejected = isinstance(error, StatusRejected)
            return self._rejected(key, snapshot, error) if rejected else Result(plan.requeue_at, error=error)
        return result

    async def _execute(self, key: JobKey, snapshot: Snapshot, plan: Plan, hidden: LabelRemoved | None) -> Result:
        decided, (actions, update_at) = plan, self._executor.updates.due(key, plan.actions, snapshot.now)
        plan = replace(plan, actions=actions)
        creating = sum(isinstance(action, CreatePod) for action in plan.actions) >= job_conditions.MANY
        later = self._debounce.until(
            key, (snapshot.status, plan.status), snapshot.now, creating=creating, size=snapshot.job.size
        )
        if later or status_codec.same_status(snapshot.status, plan.status):
            await self._confirm_job(key, snapshot, plan)
        else:
            await self._store_planned_status(key, snapshot, plan)
            self._debounce.stored(key, snapshot.status, snapshot.now, creating=creating)
        self._metrics.on_decision(snapshot, decided)
        for event in plan.events:
            if event.key or not later:  # others are recorded once, with the status that they belong to
                self._recorder.record(snapshot.job, event)
        self._cache.scale_downs.observe(snapshot, plan.actions)
        outcome = await self._executor.run(snapshot, plan.actions, plan.requeue_at)
        error = hidden or outcome.error  # a pod without its label is waited for, whatever else failed
        is_cut_short = outcome.superseded and error is None  # whether pods can be created is not known
        is_known = not is_cut_short and await self._report_refusal(key, snapshot, error)
        requeue_at = snapshot.now if is_cut_short else plan.requeue_at
        times = [time for time in (later, update_at, requeue_at) if time]
        changes = () if later else _turned(snapshot.status, plan.status)
        done = "" if is_known and not outcome.changed else outcome.message
        message = ", ".join(filter(None, (*changes, done)))
        blocked = may_last(error) and not outcome.holds
        return Result(
            min(times, default=None), message, error, known=is_known, waits=later is not None, blocked=blocked
        )

    async def _store_planned_status(self, key: JobKey, snapshot: Snapshot, plan: Plan) -> None:
        """Store the status of a plan. If it is refused nothing else is done, but Roles must not name other's pods."""
        try:
            await self._store_status(key, snapshot, plan.status)
        except ApiError as error:
            self._debounce.failed(key)
            if not isinstance(error, (Conflict, NotFound)):
                await self._executor.run(snapshot, filter(is_role_update, plan.actions))
            raise

    async def _store_status(self, key: JobKey, snapshot: Snapshot, status: Status) -> None:
        """Store the status in place of the one that was read; raise Conflict if the job changed meanwhile.

        Raise `StatusReverted` if it is stored with other values, or if another client overwrites it again and again:
        what follows from a status that does not last would be done without end.
        """
        job = snapshot.job
        self._statuses.require_lasting(key, snapshot.status, snapshot.now)
        if self._statuses.is_contested(key):
            job = await self._read_again(key, snapshot)
        patch = status_codec.status_patch(job, snapshot.status, status)
        try:
            document = await self._client.store_status(snapshot.framework, job.namespace, job.name, patch)
        except (Invalid, AdmissionDenied) as error:
            raise StatusRejected(str(error)) from error
        stored = self._cache.stored(key, document)
        if reverted := reverted_fields(patch, status, document, stored):
            self._statuses.reverted(key, status, snapshot.now)
            raise StatusReverted(writes.status_altered(reverted))
        self._rejections.forget(key)
        self._statuses.stored(key, snapshot.status, stored, snapshot.now)
        self._metrics.on_status_stored(snapshot, status)

    async def _confirm_job(self, key: JobKey, snapshot: Snapshot, plan: Plan) -> None:
        """Verify with a GET, before any action, that the job still exists at the cached version.

        A new job that the watch has delivered is not read while the watch of jobs is as far as that of pods: then no
        pod of the job can have come and gone since the cache has its copy (docs/decisions/new-jobs-by-version.md).
        """
        job = snapshot.job
        if not plan.actions or (_is_new(snapshot) and self._cache.is_up_to_date_about(job)):
            return
        if self._statuses.is_contested(key):
            await self._read_again(key, snapshot)
            return
        document = await self._client.read_job(snapshot.framework, job.namespace, job.name)
        if document is None:
            raise NotFound(f"{job.kind} {job.namespace}/{job.name}")
        if document["metadata"]["resourceVersion"] != job.version:
            raise Conflict("the job changed after the cache read it")

    async def _read_again(self, key: JobKey, snapshot: Snapshot) -> Job:
        """GET a job that others change all the time; return it at the version that it has now.

        What they have changed since is seen by the next reconcile. Raises `NotFound`, and `Conflict` if it is not the
        status.
        """
        job = snapshot.job
        document = await self._client.read_job(snapshot.framework, job.namespace, job.name)
        if document is None:
            raise NotFound(f"{job.kind} {job.namespace}/{job.name}")
        found = self._cache.read(key, document)
        if is_older(found.version, job.version) or (found.uid, found.status) != (job.uid, snapshot.status):
            self._statuses.settled(key)
            raise Conflict("the status of the job changed after the cache read it")
        return replace(job, version=found.version)

    def _rejected(self, key: JobKey, snapshot: Snapshot, error: ApiError) -> Result:
        """Write an Event that the API server rejects the status; without a stored status no action is possible."""
        self._metrics.count_rejected_status(snapshot)
        is_new = self._rejections.news(key, str(error))
        if is_new:
            what = writes.STATUS_REVERTED if isinstance(error, StatusReverted) else writes.STATUS_REJECTED
            self._recorder.record(snapshot.job, Event(EventType.WARNING, error.reason, f"{what}: {error}"))
        return Result(error=error, known=not is_new)

    async def _report_refusal(self, key: JobKey, snapshot: Snapshot, error: ApiError | None) -> bool:
        """Store why pods cannot be created, or that they can again; after an unknown outcome change nothing.

        Return whether this refusal was known before.
        """
        refused = isinstance(error, (Forbidden, Invalid, NameConflict))
        if (error and not refused) or self._cache.uid(key) != snapshot.job.uid:
            return False
        changed = self._cache.refusal(key, _refusal(error), snapshot.now)
        fresh = self._cache.snapshot(key, snapshot.now) if changed else None
        if fresh is None:
            return refused and not changed
        status = planner.plan(fresh).status
        if not (status_codec.same_status(fresh.status, status) or status.must_precede(fresh.status)):
            await self._store_status(key, fresh, status)
        return False

    async def _refresh_job(self, key: JobKey, snapshot: Snapshot) -> ApiError | None:
        """GET the job after a conflict and update the cache; return an error if the request fails.

        Return `StatusReverted` if the job has not changed, and that again and again.
        """
        job = snapshot.job
        try:
            document = await self._client.read_job(snapshot.framework, job.namespace, job.name)
            if document and is_older(document["metadata"]["resourceVersion"], job.version):
                return Unavailable("the response for the job is older than the cache")
            if document is None or document["metadata"]["uid"] != job.uid:
                self._cache.forget(key, job.uid)
            if document is not None:
                self._cache.read(key, document)
        except ApiError as error:
            return error
        if document and document["metadata"]["resourceVersion"] == job.version:
            times = self._statuses.count_conflict(key, job.version)
            return StatusReverted(writes.FALSE_CONFLICT) if times >= FALSE_CONFLICTS else None
        fresh = self._cache.snapshot(key, snapshot.now)
        if fresh is not None and _has_status_of(fresh, snapshot):
            self._statuses.conflict(key)
        else:
            self._statuses.settled(key)
        return None


def _has_status_of(one: Snapshot, other: Snapshot) -> bool:
    """Return whether both are snapshots of the same job with the same status, whatever else has changed."""
    return one.job.uid == other.job.uid and one.status == other.status


def _is_new(snapshot: Snapshot) -> bool:
    """Return whether the job is younger than NEW and has no pods and no status yet."""
    created = snapshot.job.created
    if snapshot.pods or snapshot.status.conditions or not created:
        return False
    return abs(snapshot.now - created) < NEW


def _refusal(error: ApiError | None) -> ApiRefusal | None:
    if error is None:
        return None
    return ApiRefusal(error.reason, str(error), (error.pod,) if isinstance(error, LabelRemoved) and error.pod else ())


def _user_input(job: Job) -> Document:
    """Return what the user wrote into the job; an error message about its status may quote any of it."""
    return {"annotations": dict(job.annotations), "templates": [group.template for group in job.groups]}


def _turned(before: Status, after: Status) -> Iterator[str]:
    """Yield the conditions that changed their status, for the log."""
    known = {(condition.type, condition.true) for condition in before.conditions}
    for condition in after.conditions:
        if (condition.type, condition.true) not in known:
            yield f"{condition.type}={condition.true}"

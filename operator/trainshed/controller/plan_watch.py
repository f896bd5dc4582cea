"""Checks whether a plan that is being carried out is still what the planner wants; its creations may take minutes.

A slow admission webhook or a rate limit lets them wait. Meanwhile the job may be suspended or deleted, or its deadline
may pass. Then the creations that wait are withdrawn, those under way end, and the job is planned again at once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeGuard

import msgspec
from msgspec.structs import replace

from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Plan,
    ReleasePod,
    Snapshot,
    UpdateDependent,
)
from trainshed.api.job import Job, RunPolicy
from trainshed.api.objects import ROLES
from trainshed.api.status import Status
from trainshed.client.withdrawal import Withdrawal
from trainshed.plan import dependents

from .cache import Cache

#: Seconds between two checks of a plan. Most plans are carried out in less; each plan creates what it can until then,
#: so a job that changes all the time gets its pods as well.
INTERVAL = 0.5
#: The age of a plan from which on its creations stop so that a status with other conditions is stored: the first status
#: of a job says when it started, which its deadline counts from. As seldom, many jobs that wait cost few writes more.
LONG = timedelta(seconds=5)
#: The largest part of the time of the event loop that the checks of all plans take together.
SHARE = 0.1
CREATIONS = (CreateDependent, CreatePod, CreateService)
DELETIONS = (DeleteDependent, DeleteJob, DeletePod, DeleteService, ReleasePod)
#: Takes names out of a Role, by a snapshot that is newer than the plan; returns whether it did.
TakeBack: TypeAlias = Callable[[Snapshot, UpdateDependent], Coroutine[Any, Any, bool]]


class PlanChecks:
    """Lets plans be checked one after the other, those of each namespace in turn, and not too often.

    `plan` is the planner.
    """

    def __init__(self, plan: Callable[[Snapshot], Plan]) -> None:
        self.plan = plan
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        self._not_before = 0.0

    def ask(self, namespace: str, check: Callable[[], None]) -> None:
        """Call `check` when it is its turn."""
        idle = not self._waiting
        self._waiting.setdefault(namespace, deque()).append(check)
        if idle:
            self._schedule()

    def _schedule(self) -> None:
        asyncio.get_running_loop().call_at(self._not_before, self._next)

    def _next(self) -> None:
        clock = asyncio.get_running_loop().time
        namespace, queue = self._waiting.popitem(last=False)
        check, began = queue.popleft(), clock()
        if queue:
            self._waiting[namespace] = queue
        try:
            check()
        finally:
            self._not_before = clock() + (clock() - began) / SHARE
            if self._waiting:
                self._schedule()


class Watched(msgspec.Struct, frozen=True):
    """A plan that is being carried out: what it follows from, what it does and has `done`, and when the next is due."""

    snapshot: Snapshot
    actions: Sequence[Action]
    done: Sequence[Action]
    due: datetime | None


class PlanWatch:
    """Checks one plan. `withdrawal` is done once it is superseded."""

    def __init__(self, checks: PlanChecks, cache: Cache, watched: Watched, take_back: TakeBack) -> None:
        self._checks = checks
        self._cache = cache
        self._watched = watched
        self._take_back = take_back
        self._due = self._earliest(watched.due, watched.snapshot.now)
        self._seen = {pod.name for pod in watched.snapshot.pods}
        self._asked = self._ended = self._writes = False
        self.withdrawal = Withdrawal()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check while the body runs, if anything may be withdrawn or taken back meanwhile."""
        loop, key = asyncio.get_running_loop(), self._watched.snapshot.job.key
        has_roles = any(one.resource is ROLES for one in self._watched.snapshot.dependents)
        if not (has_roles or any(isinstance(action, CREATIONS) for action in self._watched.actions)):
            yield
            return
        self._cache.changed[key] = False
        self._began = loop.time()
        async with asyncio.TaskGroup() as self._group:
            self._timer = loop.call_later(INTERVAL, self._tick)
            try:
                yield
            finally:
                self._ended = True
                self._timer.cancel()
                self._cache.changed.pop(key, None)

    def _tick(self) -> None:
        """Withdraw what a job that is gone or suspended does not need; ask for a check if anything has changed."""
        loop, snapshot = asyncio.get_running_loop(), self._watched.snapshot
        has_changed = self._cache.changed[snapshot.job.key]
        if has_changed and self._is_ended():
            self.withdrawal.withdraw()
        if not self._asked and (has_changed or (self._due and self._due <= self._now())):
            self._asked = True
            self._checks.ask(snapshot.job.namespace, self._check)
        self._timer = loop.call_later(INTERVAL, self._tick)

    def _is_ended(self) -> bool:
        """Return whether the job is gone, is being deleted, or was suspended."""
        job = self._watched.snapshot.job
        fresh = self._cache.jobs[job.kind].items.get(self._cache.uid(job.key))
        if fresh is None or fresh.uid != job.uid or fresh.job.deleting:
            return True
        return fresh.job.policy.suspend and not job.policy.suspend

    def _now(self) -> datetime:
        """Return the time by the clock of the plan."""
        return self._watched.snapshot.now + timedelta(seconds=asyncio.get_running_loop().time() - self._began)

    def _earliest(self, due: datetime | None, now: datetime) -> datetime | None:
        """Return when a check is due though nothing has changed."""
        long = self._watched.snapshot.now + LONG
        times = [time for time in (due, long if long > now else None) if time]
        return min(times, default=None)

    def _check(self) -> None:
        self._asked = False
        if self._ended:
            return
        snapshot, now = self._watched.snapshot, self._now()
        self._cache.changed[snapshot.job.key] = False
        fresh = self._cache.snapshot(snapshot.job.key, now)
        if fresh is None or fresh.job.uid != snapshot.job.uid:
            self.withdrawal.withdraw()
            return
        # What the API server has answered about missing pods before the plan was made is not asked again.
        is_counted = fresh.counted_here or snapshot.counted_here
        fresh = replace(fresh, refusal=snapshot.refusal, counted_here=is_counted)
        plan = self._checks.plan(fresh)
        self._due = self._earliest(plan.requeue_at, now)
        if is_superseded(self._watched, fresh, plan):
            self.withdrawal.withdraw()
        names = {pod.name for pod in fresh.pods}
        is_lost = not self._seen <= names
        self._seen |= names
        for action in plan.actions:
            if is_role_update(action) and not self._writes and takes_back(fresh, action, otherwise=is_lost):
                self._writes = True
                self._group.create_task(self._update_role(fresh, action, names))

    async def _update_role(self, fresh: Snapshot, action: UpdateDependent, names: set[str]) -> None:
        if await self._take_back(fresh, action):
            self._seen = names
        self._writes = False


def is_role_update(action: Action) -> TypeGuard[UpdateDependent]:
    """Return whether the action may take a right back, which must not wait for anything else."""
    return isinstance(action, UpdateDependent) and action.resource is ROLES


def takes_back(fresh: Snapshot, action: UpdateDependent, *, otherwise: bool) -> bool:
    """Return whether an action takes the name of a pod out of a Role; of a large one that is not known, `otherwise`."""
    role = next(one for one in fresh.dependents if one.resource is ROLES and one.name == action.name)
    answer = dependents.takes_back(role, action.patch)
    return otherwise if answer is None else answer


def is_superseded(watched: Watched, fresh: Snapshot, plan: Plan) -> bool:
    """Return whether a plan of now does not create all that is left of the watched one, or does what cannot wait.

    That is what changes the history of the job, deletions, and after a while other conditions. What exists already is
    not left to be created.
    """
    if plan.status.must_precede(fresh.status) or not _is_same(watched.snapshot.job, fresh.job):
        return True
    if fresh.now >= watched.snapshot.now + LONG and _conditions(plan.status) != _conditions(fresh.status):
        return True
    wanted = {_target(action) for action in plan.actions}
    known = {_target(action) for action in watched.actions if isinstance(action, DELETIONS)}
    if any(isinstance(action, DELETIONS) and _target(action) not in known for action in plan.actions):
        return True
    return not _left(watched, fresh) <= wanted


def _conditions(status: Status) -> set[tuple[str, bool]]:
    return {(condition.type, condition.true) for condition in status.conditions}


def _left(watched: Watched, fresh: Snapshot) -> set[object]:
    done = {_target(action) for action in watched.done}
    there: set[object] = {(CreatePod, pod.name) for pod in fresh.pods}
    there |= {(CreateService, service.name) for service in fresh.services}
    there |= {(CreateDependent, one.name, one.resource) for one in fresh.dependents}
    left = (_target(action) for action in watched.actions if isinstance(action, CREATIONS))
    return {target for target in left if there.isdisjoint((target, target[:2])) and target not in done}


def _target(action: Action) -> tuple[object, ...]:
    """Return what an action makes of which object, apart from its content."""
    match action:
        case CreatePod(name=name, attempt=attempt):
            return CreatePod, name, attempt
        case CreateDependent(name=name, resource=resource):
            return CreateDependent, name, resource
        case DeletePod(name=name, uid=uid, grace=grace):
            return DeletePod, name, uid, grace
        case DeleteService(name=name, uid=uid) | DeleteDependent(name=name, uid=uid) | ReleasePod(name=name, uid=uid):
            return type(action), name, uid
        case DeleteJob(uid=uid):
            return DeleteJob, uid
    return type(action), action.name


def _is_same(before: Job, fresh: Job) -> bool:
    """Return whether pods are made the same; the plan tells what follows from the rest of the spec."""
    if before.generation == fresh.generation:
        return True
    first, second = (
        replace(job, version="", generation=0, policy=RunPolicy(), annotations={}) for job in (before, fresh)
    )
    return first == second

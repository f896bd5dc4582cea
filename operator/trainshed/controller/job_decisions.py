"""Records the decisions about jobs that ask for it: after the status, apart from reconciles, twice a minute at most.

What follows from a crash, by the place at which it happens: before the write, the decisions since the one before it are
lost, and the next leader says so; after it, nothing. After a lost answer and after a conflict the ConfigMap is read
again, and what it lacks is written. An older leader cannot write over a newer one: each write is for what was read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import Protocol

import msgspec

from trainshed.api.actions import Event, Plan, Snapshot
from trainshed.api.job import Document, Job, JobKey
from trainshed.client import ApiError, Conflict, Forbidden, Invalid, NotFound, NotLeader
from trainshed.decisions import KEPT, MISSED, REFUSED, ring
from trainshed.decisions.recording import Encoder, worth_keeping
from trainshed.decisions.ring import Ring
from trainshed.plan.messages import job_events
from trainshed.process import job_fields

from .observer import Background

#: The time between two writes for a job, also after errors, which doubles it up to the second one; at the end of a job
#: nothing is waited for. The seconds between two checks of what is due.
EVERY, RAREST, POLL_SECONDS = timedelta(seconds=30), timedelta(minutes=8), 0.5
#: The most decisions of a job that wait for a write; jobs whose parts are kept in memory; writes at a time; tries after
#: conflicts, which come at once.
MOST_WAITING, MOST_LOADED, AT_A_TIME, MOST_CONFLICTS = 64, 500, 4, 4
NOT_OURS = "a ConfigMap of that name does not belong to the job"

log = logging.getLogger(__name__)


class DecisionStore(Protocol):
    """Reads and writes ConfigMaps, as `trainshed.client.config_maps` does; raises any `ApiError`."""

    async def read(self, namespace: str, name: str) -> Document | None:
        """Return a ConfigMap, None if it does not exist."""
        ...

    async def create(self, namespace: str, body: Document) -> Document:
        """Create a ConfigMap; raises `Conflict` if there is one of that name."""
        ...

    async def merge(self, namespace: str, name: str, patch: Document) -> Document:
        """Merge a patch with preconditions; raises `Conflict`, and `NotFound` if it does not exist."""
        ...


class _Loaded(msgspec.Struct):
    """What the ConfigMap of a job is to have, and its metadata in the last answer; None if there is none."""

    encoder: Encoder
    ring: Ring
    metadata: Document | None


class _Waiting(msgspec.Struct):
    """A decision that waits for a write, and how many before it were lost since the one that is kept before it."""

    snapshot: Snapshot
    plan: Plan
    missed: int


class _Recorded(msgspec.Struct):
    """A job whose decisions are recorded, with those that wait for a write, which is `due` at some time."""

    job: Job
    due: datetime
    #: No process seems to have decided about the job, so that the API server is not asked for its ConfigMap. One may
    #: have ended before it has stored a status.
    is_new: bool
    #: Another process has decided before the next decision.
    restarted: bool
    waiting: deque[_Waiting] = msgspec.field(default_factory=deque)
    loaded: _Loaded | None = None
    rule: str = ""
    delay: timedelta = EVERY
    #: How many are in the ring and not stored yet, and how many were lost since the last one that is kept.
    unstored: int = 0
    missed: int = 0
    ended: bool = False
    refused: bool = False

    def put(self, snapshot: Snapshot, plan: Plan) -> bool:
        """Let a decision wait; return whether another one is lost for it: the first that did nothing, or the first."""
        self.waiting.append(_Waiting(snapshot, plan, self.missed))
        self.missed = 0
        if len(self.waiting) <= MOST_WAITING:
            return False
        place = next((n for n, one in enumerate(self.waiting) if not one.plan.actions), 0)
        lost = self.waiting[place]
        del self.waiting[place]
        self.lose(lost, place)
        return True

    def lose(self, one: _Waiting, place: int) -> None:
        """Let the decision that waits at a place, or else the next one, say that the one before it is lost."""
        if place < len(self.waiting):
            self.waiting[place].missed += 1 + one.missed
        else:
            self.missed += 1 + one.missed


class JobDecisions(Background):
    """Hears of decisions; jobs that do not ask cost the reading of one field.

    `tell` writes an Event about a job, `count` counts decisions by what becomes of them.
    """

    def __init__(
        self,
        store: DecisionStore,
        tell: Callable[[Job, Event], None],
        count: Callable[[str, int], None],
        now: Callable[[], datetime],
    ) -> None:
        self._store, self._tell, self._count, self._now = store, tell, count, now
        self._jobs: dict[JobKey, _Recorded] = {}
        #: By uid: those that have something to write, the writes, and those of which the ring is known.
        self._waiting: dict[str, _Recorded] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._loaded: dict[str, _Recorded] = {}
        self._some = asyncio.Event()
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._version = version("trainshed")

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Let a decision wait for the next write, if its job asks and the decision does anything."""
        job = snapshot.job
        if not job.decisions or job.policy.managed_elsewhere:
            return
        found = self._jobs.get(job.key)
        if found is None or found.job.uid != job.uid:
            is_new = not snapshot.status.conditions
            found = self._jobs[job.key] = _Recorded(job, snapshot.now, is_new=is_new, restarted=not is_new)
        # The first decision after a restart: if it does nothing, a new leader would write about every job for it.
        rule, found.rule = found.rule or (plan.rule if found.restarted else ""), plan.rule
        if found.refused or not worth_keeping(snapshot, plan, rule):
            return
        found.job = job
        if job.uid not in self._waiting:
            found.due = self._now() + EVERY
            self._waiting[job.uid] = found
            self._some.set()
        if found.put(snapshot, plan):
            self._count(MISSED, 1)
        if plan.status.over and not snapshot.status.over:
            found.due, found.ended = self._now(), True

    def forget(self, key: JobKey, now: datetime) -> None:
        """Forget a deleted job: its ConfigMap goes with it."""
        del now
        if found := self._jobs.pop(key, None):
            self._waiting.pop(found.job.uid, None)
            self._loaded.pop(found.job.uid, None)

    def step_down(self) -> None:
        """Forget all: the next leader records."""
        self._jobs.clear()
        self._waiting.clear()
        self._loaded.clear()

    async def run(self) -> None:
        """Write what is due, without end; no job waits for another one."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._some.wait()
                await asyncio.sleep(POLL_SECONDS)
                for uid in self._due():
                    self._writing[uid] = task = group.create_task(self._write(uid))
                    task.add_done_callback(partial(self._done, uid))
                if not self._waiting:
                    self._some.clear()

    async def finish(self, seconds: float) -> None:
        """Write what waits, whether it is due or not, as far as the caller lets it."""
        del seconds
        await asyncio.gather(*self._writing.values(), return_exceptions=True)
        await asyncio.gather(*map(self._write, list(self._waiting)))

    def _due(self) -> list[str]:
        now = self._now()
        return [uid for uid, found in self._waiting.items() if found.due <= now and uid not in self._writing]

    def _done(self, uid: str, _task: asyncio.Task[None]) -> None:
        del self._writing[uid]

    async def _write(self, uid: str) -> None:
        """Write what a job has to write; after an error that may pass, later again."""
        async with self._room:
            found = self._waiting.get(uid)
            if found is None:
                return
            try:
                await self._store_ring(found)
            except NotLeader:
                return
            except (Forbidden, Invalid, NotFound) as error:
                self._give_up(found, str(error))
            except ApiError as error:
                log.debug("%s: cannot write the decisions: %s", found.job.key, error)
                found.due = self._now() + found.delay
                found.delay = min(2 * found.delay, RAREST)
            else:
                self._stored(found)

    def _stored(self, found: _Recorded) -> None:
        self._count(KEPT, found.unstored)
        found.unstored, found.delay, found.is_new = 0, EVERY, False
        if not found.waiting:
            self._drop(found)
        elif not found.ended:
            found.due = self._now() + EVERY

    def _give_up(self, found: _Recorded, why: str) -> None:
        log.warning("%s: the decisions are not recorded: %s", found.job.key, why, extra=job_fields(found.job.key))
        self._tell(found.job, job_events.decisions_refused(why))
        self._count(REFUSED, found.unstored + len(found.waiting))
        found.refused, found.loaded = True, None
        found.waiting.clear()
        self._drop(found)
        self._loaded.pop(found.job.uid, None)

    def _drop(self, found: _Recorded) -> None:
        """Take a job from those that wait, unless this process has lost the lead meanwhile, and leads again."""
        if self._waiting.get(found.job.uid) is found:
            del self._waiting[found.job.uid]

    async def _store_ring(self, found: _Recorded) -> None:
        loaded = found.loaded or await self._load(found)
        await self._encode(found, loaded)
        for left in reversed(range(MOST_CONFLICTS)):
            try:
                await self._store_once(found.job, loaded)
            except Conflict:
                if not left:
                    raise
                known = await self._read(found.job)
                if loaded.metadata is None and known:
                    loaded.ring.follow(known)
                loaded.metadata = known and known.get("metadata")
                loaded.ring.compare(known or {})
            else:
                return

    async def _store_once(self, job: Job, loaded: _Loaded) -> None:
        """Write what the ConfigMap lacks; raises `Conflict` if it is not as it was in the last answer."""
        changes = loaded.ring.changes()
        if not changes:
            return
        if loaded.metadata is None:
            answer = await self._store.create(job.namespace, ring.new_config_map(job, changes))
        else:
            patch = ring.patch(loaded.metadata, changes)
            try:
                answer = await self._store.merge(job.namespace, ring.name_of(job.uid), patch)
            except NotFound as error:  # deleted since it was read, while the namespace may well be there
                raise Conflict(str(error)) from error
        loaded.metadata = answer.get("metadata")
        loaded.ring.stored()

    async def _read(self, job: Job) -> Document | None:
        known = await self._store.read(job.namespace, ring.name_of(job.uid))
        if known is not None and not ring.is_of(known, job.uid):
            raise Invalid(NOT_OURS)
        return known

    async def _load(self, found: _Recorded) -> _Loaded:
        """Return what is known of the ConfigMap of a job: it is read unless there can be none."""
        uid = found.job.uid
        known = None if found.is_new else await self._read(found.job)
        found.loaded = loaded = _Loaded(Encoder(self._version), Ring(known), known and known.get("metadata"))
        self._loaded[uid] = found
        if len(self._loaded) > MOST_LOADED and (
            rest := next((one for one in self._loaded if one not in self._waiting), "")
        ):
            self._loaded.pop(rest).loaded = None
        return loaded

    async def _encode(self, found: _Recorded, loaded: _Loaded) -> None:
        """Add what waits to the ring, one after the other: a snapshot of a large job takes some milliseconds."""
        found.ended = False
        while found.waiting:
            one = found.waiting.popleft()
            if line := self._line(found, loaded, one):
                loaded.ring.add(line)
                found.unstored += 1
                found.restarted = False
            else:
                found.lose(one, 0)
                self._count(MISSED, 1)
            await asyncio.sleep(0)

    def _line(self, found: _Recorded, loaded: _Loaded, one: _Waiting) -> bytes:
        """Return the line of a decision, empty if it is too large or cannot be written."""
        encoder, begins = loaded.encoder, loaded.ring.begins
        encoder.n = loaded.ring.n
        try:
            line = encoder.line(one.snapshot, one.plan, whole=begins, missed=one.missed, after_restart=found.restarted)
            if ring.is_too_large(line):
                encoder.n = loaded.ring.n
                line = encoder.line_without(one.snapshot, one.plan, missed=one.missed, after_restart=found.restarted)
        except (TypeError, ValueError, RecursionError):  # others write parts of what the planner sees
            log.exception("%s: a decision cannot be recorded", found.job.key, extra=job_fields(found.job.key))
            return b""
        return b"" if ring.is_too_large(line) else line

"""Keeps records of finished jobs that ask for one: after the status, apart from reconciles, and each once.

What follows from a crash, by the place at which it happens: before the write, the next leader reconciles all jobs,
finds those that have ended, and writes what the ConfigMap lacks. After it, it finds the record there. The same is done
after a lost answer and after a conflict: the ConfigMap is read again. Only of a job that is deleted before it has
ended, and while no operator remembers it, there is no record.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Protocol

from msgspec.structs import replace

from trainshed.api import record_ring
from trainshed.api.actions import Event, Snapshot
from trainshed.api.framework import Framework
from trainshed.api.job import Document, Job, JobKey
from trainshed.api.job_record import Curve, Ended, Versions, encode
from trainshed.api.record_ring import Candidate
from trainshed.api.status import Status
from trainshed.client import ApiError, Conflict, Forbidden, Invalid, NotFound, NotLeader
from trainshed.plan.messages import job_events
from trainshed.process import job_fields

from .observer import Background

#: The most jobs that are remembered until they end, and of which it is remembered that their records are kept.
MOST_OPEN, MOST_KEPT = 10_000, 50_000
#: Seconds in which records of a namespace are gathered, and before each further try; after the last one they are given
#: up until another replica leads.
GATHERING = 0.5
DELAYS = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 120.0)
#: The most tries after conflicts, which come at once, and namespaces that are written at a time.
MOST_CONFLICTS, AT_A_TIME = 5, 4
NOT_OURS = f"the ConfigMap {record_ring.NAME} has no label {record_ring.LABEL}: it is not Trainshed's"

log = logging.getLogger(__name__)


class RecordStore(Protocol):
    """Reads and writes ConfigMaps, as `trainshed.client.config_maps` does; raises any `ApiError`."""

    async def read(self, namespace: str, name: str) -> Document | None:
        """Return a ConfigMap, None if it does not exist."""
        ...

    async def create(self, namespace: str, body: Document) -> object:
        """Create a ConfigMap; raises `Conflict` if there is one of that name."""
        ...

    async def merge(self, namespace: str, name: str, patch: Document) -> object:
        """Merge a patch with preconditions; raises `Conflict`, and `NotFound` if it does not exist."""
        ...

    async def kubernetes_version(self) -> str:
        """Return the version of the API server, empty if it is not known."""
        ...


class _Open:
    """A job that has not ended, as it was last seen."""

    __slots__ = ("curve", "framework", "job", "status")

    def __init__(self, job: Job, framework: Framework, status: Status, curve: Curve) -> None:
        self.job, self.framework, self.status, self.curve = job, framework, status, curve


class JobRecords(Background):
    """Hears of reconciles; jobs that do not ask cost the reading of one field.

    `run` writes, without end. `tell` writes an Event about a job of which no record can be kept.
    """

    def __init__(self, store: RecordStore, tell: Callable[[Job, Event], None], now: Callable[[], datetime]) -> None:
        self._store, self._tell, self._now = store, tell, now
        self._open: OrderedDict[str, _Open] = OrderedDict()
        #: The uid of each job that asks, as a reconcile saw it last.
        self._uids: dict[JobKey, str] = {}
        #: By uid: whether the record that is kept, or is to be written, or was given up, is the last one.
        self._kept: OrderedDict[str, bool] = OrderedDict()
        self._queued: dict[str, dict[str, Ended]] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._some = asyncio.Event()
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._versions = Versions(operator=version("trainshed"))

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Check a job that is reconciled: it may have ended before this process saw it."""
        if snapshot.job.record:
            self._saw(snapshot, snapshot.status)

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Check a job whose status has been stored."""
        if snapshot.job.record:
            self._saw(snapshot, after)

    def forget(self, key: JobKey, now: datetime) -> None:
        """Write the record of a job that was deleted before it has ended, if it is remembered."""
        uid = self._uids.pop(key, "")
        self._kept.pop(uid, None)
        if found := self._open.pop(uid, None):
            self._enqueue(Ended(found.job, found.framework, found.status, found.curve, deleted=now))

    def step_down(self) -> None:
        """Forget all: the next leader finds what is to be written."""
        self._open.clear()
        self._uids.clear()
        self._kept.clear()
        self._queued.clear()

    def _saw(self, snapshot: Snapshot, status: Status) -> None:
        job = snapshot.job
        if job.policy.managed_elsewhere:
            return
        self._uids[job.key] = job.uid
        known = self._open.get(job.uid)
        curve, report = known.curve if known else Curve(), snapshot.training or status.trainer
        if report and job.created:
            curve = curve.then(report, job.created)
        if not status.over:
            self._open[job.uid] = _Open(job, snapshot.framework, status, curve)
            self._open.move_to_end(job.uid)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return
        self._open.pop(job.uid, None)
        ended = Ended(job, snapshot.framework, status, curve)
        kept = self._kept.get(job.uid)
        if kept is None or (ended.settled and not kept):
            self._enqueue(ended)

    def _enqueue(self, ended: Ended) -> None:
        job = ended.job
        waiting = self._queued.setdefault(job.namespace, {})
        if (before := waiting.get(job.uid)) and len(before.curve.points) > len(ended.curve.points):
            ended = replace(ended, curve=before.curve)
        waiting[job.uid] = ended
        if len(waiting) > MOST_OPEN:
            waiting.pop(next(iter(waiting)))
        if not ended.deleted:
            self._kept[job.uid] = ended.settled
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._some.set()

    async def run(self) -> None:
        """Write what is queued, without end; no namespace waits for another one."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._some.wait()
                await asyncio.sleep(GATHERING)
                self._some.clear()
                for namespace in [name for name in self._queued if name not in self._writing]:
                    self._writing[namespace] = task = group.create_task(self._keep_trying(namespace))
                    task.add_done_callback(partial(self._done, namespace))

    async def flush(self) -> None:
        """Write once what is queued; raises nothing."""
        for namespace in list(self._queued):
            await self._try(namespace, self._queued.pop(namespace), last=True)

    def _done(self, namespace: str, _task: asyncio.Task[None]) -> None:
        del self._writing[namespace]
        if namespace in self._queued:
            self._some.set()

    async def _keep_trying(self, namespace: str) -> None:
        for delay in (*DELAYS, None):
            batch = self._queued.pop(namespace, {})
            if await self._try(namespace, batch, last=delay is None) or delay is None:
                return
            self._queued[namespace] = batch | self._queued.get(namespace, {})
            await asyncio.sleep(delay)

    async def _try(self, namespace: str, batch: dict[str, Ended], *, last: bool) -> bool:
        """Write a batch; return False if it is to be tried again."""
        if not batch:
            return True
        try:
            async with self._room:
                await self._write(namespace, batch)
        except NotLeader:
            return True
        except (Forbidden, Invalid, NotFound) as error:
            self._give_up(batch, str(error))
        except ApiError as error:
            log.debug("namespace %s: cannot write records of jobs: %s", namespace, error)
            if not last:
                return False
            self._give_up(batch, str(error))
        return True

    async def _write(self, namespace: str, batch: dict[str, Ended]) -> None:
        if not self._versions.kubernetes:
            self._versions = replace(self._versions, kubernetes=await self._store.kubernetes_version())
        for left in reversed(range(MOST_CONFLICTS)):
            try:
                await self._write_once(namespace, batch)
            except Conflict:
                if not left:
                    raise
            else:
                return

    async def _write_once(self, namespace: str, batch: dict[str, Ended]) -> None:
        """Read the ConfigMap, and write what it lacks; nothing if it lacks nothing."""
        known = await self._store.read(namespace, record_ring.NAME)
        if known is not None and not record_ring.is_ours(known):
            raise Invalid(NOT_OURS)
        now, versions = self._now(), self._versions
        candidates = [
            Candidate(uid, one.time or now, one.settled, partial(encode, one, versions)) for uid, one in batch.items()
        ]
        entries = record_ring.changes(known or {}, candidates, now)
        if not entries:
            return
        if known is None:
            await self._store.create(namespace, record_ring.new_config_map(entries))
            return
        try:
            await self._store.merge(namespace, record_ring.NAME, record_ring.patch(known, entries))
        except NotFound as error:  # deleted since it was read, while the namespace may well be there
            raise Conflict(str(error)) from error

    def _give_up(self, batch: dict[str, Ended], why: str) -> None:
        for ended in batch.values():
            log.warning("%s: no record is kept: %s", ended.job.key, why, extra=job_fields(ended.job.key))
            self._tell(ended.job, job_events.record_refused(why))
            if ended.job.uid in self._kept:
                self._kept[ended.job.uid] = True

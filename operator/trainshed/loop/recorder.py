"""Tells users what happened, as Kubernetes Events: gathered, bounded, and never in anybody's way."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from trainshed.api.actions import Note
from trainshed.api.job import Job
from trainshed.cluster import Cluster, ClusterError, Conflict, Missing

#: Seconds in which notes of one reason on one job are gathered into one Event.
GATHER = 1.0
#: Seconds within which the same words again only raise the count of their Event.
SAME = 600.0
#: The count is written once it is so many times what is written: of a job that is refused all day there are few writes.
RAISED = 1.5
#: So many Events a job may have at once, after that one more every so many seconds, and as often counts may be raised
#: beside: many refusals leave room for other news. client-go's figures, for both together.
BURST, EVERY = 25, 300.0
#: An Event's message has so many bytes at the most (the API server's limit), and we remember so much of a sort in all;
#: what can make no difference any more is forgotten before.
LONGEST, REMEMBERED = 1024, 20_000
TIMESTAMP = "%Y-%m-%dT%H:%M:%SZ"

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    """An Event that exists: how often it happened, and how often it says so."""

    name: str
    count: int
    written: int
    at: float


@dataclass(slots=True)
class _Allowance:
    """How many Events a job may still have, or how often their counts may still be raised."""

    at: float
    left: float = BURST

    def earned(self, now: float) -> float:
        """How many there may be by now."""
        return min(BURST, self.left + (now - self.at) / EVERY)

    def take(self, now: float) -> bool:
        """Whether there may be one more."""
        self.left = self.earned(now)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Recorder:
    """Takes notes at once and writes Events when there is time; `lost` is called for each that cannot be written."""

    def __init__(self, cluster: Cluster, lost: Callable[[], None], now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._lost = lost
        self._now = now
        self._writing = asyncio.Lock()
        self._gathered: dict[tuple[str, Note], list[str]] = {}
        self._jobs: dict[str, Job] = {}
        self._noted: OrderedDict[int, None] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()
        self._allowances: OrderedDict[tuple[str, bool], _Allowance] = OrderedDict()
        self._some = asyncio.Event()

    def tell(self, job: Job, note: Note) -> None:
        """Note something about a job; a note with a key that was noted before is dropped."""
        if note.key and not self._is_new(hash((job.uid, note.key))):
            return
        if len(self._gathered) >= REMEMBERED:
            self._lost()
            return
        head, colon, last = note.message.rpartition(": ")
        listed = colon and note.message.startswith(("Created ", "Deleted "))
        group = replace(note, message=head) if listed else note
        self._gathered.setdefault((job.uid, group), []).append(last if listed else "")
        self._jobs[job.uid] = job
        self._some.set()

    async def run(self) -> None:
        """Write Events for ever."""
        while True:
            await self._some.wait()
            await asyncio.sleep(GATHER)
            await self.flush()

    async def flush(self) -> None:
        """Write what was noted so far; what is being written already is waited for."""
        async with self._writing:
            self._some.clear()
            gathered, self._gathered = self._gathered, {}
            jobs, self._jobs = self._jobs, {}
            writes = (self._write(jobs[uid], note, names) for (uid, note), names in gathered.items())
            # kopf, when it ends, breaks off every task younger than itself: these, but not the one that waits for them.
            for result in await asyncio.gather(*writes, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    async def _write(self, job: Job, note: Note, names: list[str]) -> None:
        message = _message(note, names)
        key = (job.uid, f"{note.reason}\n{message}")
        times = names.count("") or 1
        try:
            if not await self._again(job, key, times):
                await self._new(job, key, _event(job, note, (message, times), self._now()))
        except Conflict:
            log.debug("%s %s/%s: Event %s already exists", job.kind, job.namespace, job.name, note.reason)
        except ClusterError as error:
            self._lost()
            log.debug("%s %s/%s: cannot write an Event: %s", job.kind, job.namespace, job.name, error)

    async def _again(self, job: Job, key: tuple[str, str], times: int) -> bool:
        known = self._told.get(key)
        if known is None or _clock() - known.at > SAME:
            return False
        known.count += times
        if known.count < RAISED * known.written or not self._allowance(job.uid, again=True).take(_clock()):
            return True
        known.written = known.count
        try:
            patch = {"count": known.count, "lastTimestamp": self._now().strftime(TIMESTAMP)}
            await self._cluster.update_event(job.namespace, known.name, patch)
        except Missing:
            return False
        return True

    async def _new(self, job: Job, key: tuple[str, str], body: dict[str, Any]) -> None:
        if not self._allowance(job.uid, again=False).take(_clock()):
            self._lost()
            return
        self._remember(key, _Told(body["metadata"]["name"], body["count"], body["count"], _clock()))
        await self._cluster.create_event(job.namespace, body)

    def _is_new(self, noted: int) -> bool:
        if noted in self._noted:
            return False
        self._noted[noted] = None
        if len(self._noted) > REMEMBERED:
            self._noted.popitem(last=False)
        return True

    def _allowance(self, uid: str, *, again: bool) -> _Allowance:
        now = _clock()
        found = self._allowances.pop((uid, again), None) or _Allowance(now)
        _forget(self._allowances, lambda first: first.earned(now) >= BURST)
        self._allowances[uid, again] = found
        return found

    def _remember(self, key: tuple[str, str], told: _Told) -> None:
        self._told.pop(key, None)
        _forget(self._told, lambda first: told.at - first.at > SAME)
        self._told[key] = told


def _forget(remembered: OrderedDict[Any, T], of_no_use: Callable[[T], bool]) -> None:
    """Forget the oldest, as long as they are of no use, or leave no room for another."""
    while remembered and (len(remembered) >= REMEMBERED or of_no_use(next(iter(remembered.values())))):
        remembered.popitem(last=False)


def _message(note: Note, names: list[str]) -> str:
    listed = sorted(filter(None, names), key=_place)
    if not listed:
        return _cut(note.message)
    whole = f"{note.message}: {', '.join(listed)}"
    if len(whole.encode()) <= LONGEST:
        return whole
    end = f" ... ({len(listed)} in all)"
    kept = whole.encode()[: LONGEST - len(end)].decode(errors="ignore")
    return (kept.rpartition(",")[0] or kept) + end


def _place(name: str) -> tuple[str, int, str]:
    """Worker 2 stands before worker 10, and whoever was made first: the same names make the same Event again."""
    return name.rstrip("0123456789"), len(name), name


def _cut(text: str) -> str:
    content = text.encode()
    return text if len(content) <= LONGEST else content[: LONGEST - 4].decode(errors="ignore") + " ..."


def _event(job: Job, note: Note, told: tuple[str, int], at: datetime) -> dict[str, Any]:
    message, times = told
    words = f"{note.reason}\n{message}\n{at.isoformat()}"
    digest = hashlib.sha256(f"{job.uid}\n{note.key or words}".encode()).hexdigest()[:16]
    component = f"{job.kind.lower()}-controller"
    now = at.strftime(TIMESTAMP)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{job.name}.{digest}", "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": job.api_version,
            "kind": job.kind,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
            "resourceVersion": job.version,
        },
        "type": str(note.tone),
        "reason": note.reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": times,
    }


def _clock() -> float:
    return asyncio.get_running_loop().time()

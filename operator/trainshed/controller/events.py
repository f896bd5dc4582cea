"""Records Events, aggregated and rate-limited as client-go does."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from trainshed.api.actions import Event
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Job
from trainshed.client import ApiError, Client, Conflict, NotFound
from trainshed.plan.messages.phrases import enumeration

from .workqueue import largest_share

#: Seconds during which Events with one reason on one job are aggregated into one Event.
AGGREGATION_SECONDS = 1.0
#: Seconds for which Events wait at most while other writes wait, in steps: pods are more urgent than news of them.
MAX_EVENT_DELAY, EVENT_DELAY_STEP = 5.0, 0.2
#: Seconds during which a repeated message only increases the count of its Event.
SAME = 600.0
#: The count is written when it is this many times the written one: a job that is rejected all day causes few writes.
COUNT_GROWTH = 1.5
#: The token bucket of a job: BURST Events at once, then one every EVERY seconds. Updates of counts have a bucket of
#: their own, so that many rejections do not use up the tokens for other Events. The values are client-go's, which has
#: one bucket for both.
BURST, EVERY = 25, 300.0
#: The maximum bytes of a message (the API server's limit), and the maximum entries of each cache; entries that no
#: longer have an effect are removed earlier.
MAX_EVENT_MESSAGE_BYTES, REMEMBERED = 1024, 20_000
#: The maximum number of objects that one Event names; of the others it has only the number.
MAX_NAMED = 5
TIMESTAMP = "%Y-%m-%dT%H:%M:%SZ"

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Written:
    """An Event that was written: its name, the actual count, the written count, and when it was created."""

    name: str
    count: int
    written: int
    at: float


@dataclass(slots=True)
class _EventBudget:
    """A token bucket for new Events of a job, or for updates of their counts."""

    at: float
    left: float = BURST

    def earned(self, now: float) -> float:
        """Return the number of tokens at `now`."""
        return min(BURST, self.left + (now - self.at) / EVERY)

    def take(self, now: float) -> bool:
        """Take a token; return whether there was one."""
        self.left = self.earned(now)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Subject(msgspec.Struct, frozen=True):
    """The job that an Event is about; the job itself may be large, and Events may wait for minutes."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str


class EventRecorder:
    """Queues Events without blocking and writes Events in the background; calls `lost` for each dropped Event.

    No namespace waits for the writes of another one, and where a webhook does not answer they leave room in the queue.
    """

    def __init__(self, client: Client, lost: Callable[[], None], now: Callable[[], datetime]) -> None:
        self._client = client
        self._lost = lost
        self._now = now
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._gathered: dict[str, dict[tuple[str, Event], tuple[Subject, list[str]]]] = {}
        self._queued = 0
        self._noted: OrderedDict[int, None] = OrderedDict()
        self._written: OrderedDict[tuple[str, str], _Written] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, bool], _EventBudget] = OrderedDict()
        self._some = asyncio.Event()

    def record(self, job: Job, event: Event, names: Sequence[str] = ()) -> None:
        """Queue an Event about a job, and about the objects with these names, which are added to its message.

        Equal Events are combined. An Event whose key was queued before is dropped. What it quotes of others is made
        one printable line.
        """
        if event.key and not self._is_new(hash((job.uid, event.key))):
            return
        queued = self._gathered.setdefault(job.namespace, {})
        if len(queued) >= largest_share(REMEMBERED - self._queued):
            self._lost()
            return
        shown = replace(event, reason=one_line(event.reason), message=one_line(event.message))
        _, known = queued.get((job.uid, shown), (None, []))
        self._queued += (job.uid, shown) not in queued
        queued[job.uid, shown] = _subject(job), known
        known.extend(names or ("",))
        self._some.set()

    async def run(self) -> None:
        """Write Events without end."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._some.wait()
                await asyncio.sleep(AGGREGATION_SECONDS)
                until = _clock() + MAX_EVENT_DELAY
                while self._client.is_busy() and _clock() < until:  # noqa: ASYNC110 - a second later is soon enough
                    await asyncio.sleep(EVENT_DELAY_STEP)
                self._some.clear()
                for namespace in [name for name in self._gathered if name not in self._writing]:
                    self._writing[namespace] = task = group.create_task(self._write_all(namespace))
                    task.add_done_callback(partial(self._written_all, namespace))

    async def flush(self) -> None:
        """Write the queued Events; writes in progress are awaited."""
        namespaces = {**self._writing, **self._gathered}
        await asyncio.gather(*(self._flush(namespace) for namespace in namespaces))

    async def _flush(self, namespace: str) -> None:
        if namespace in self._writing:
            await asyncio.wait((self._writing[namespace],))
        await self._write_all(namespace)

    def _written_all(self, namespace: str, _task: asyncio.Task[None]) -> None:
        del self._writing[namespace]
        if namespace in self._gathered:
            self._some.set()

    async def _write_all(self, namespace: str) -> None:
        gathered = self._gathered.pop(namespace, {})
        self._queued -= len(gathered)
        writes = (self._write(job, event, names) for (_, event), (job, names) in gathered.items())
        # kopf at its end cancels every task younger than itself: these writes, but not the task that awaits them.
        for result in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _write(self, job: Subject, event: Event, names: list[str]) -> None:
        message = _message(event, names)
        key = (job.uid, f"{event.reason}\n{message}")
        times = names.count("") or 1
        try:
            if not await self._update(job, key, times):
                await self._create(job, key, _event(job, event, (message, times), self._now()))
        except Conflict:
            log.debug("%s %s/%s: Event %s already exists", job.kind, job.namespace, job.name, event.reason)
        except ApiError as error:
            self._lost()
            log.debug("%s %s/%s: cannot write an Event: %s", job.kind, job.namespace, job.name, error)

    async def _update(self, job: Subject, key: tuple[str, str], times: int) -> bool:
        known = self._written.get(key)
        if known is None or _clock() - known.at > SAME:
            return False
        known.count += times
        if known.count < COUNT_GROWTH * known.written or not self._budget(job.uid, again=True).take(_clock()):
            return True
        known.written = known.count
        try:
            patch = {"count": known.count, "lastTimestamp": self._now().strftime(TIMESTAMP)}
            await self._client.update_event(job.namespace, known.name, patch)
        except NotFound:
            return False
        return True

    async def _create(self, job: Subject, key: tuple[str, str], body: dict[str, Any]) -> None:
        if not self._budget(job.uid, again=False).take(_clock()):
            self._lost()
            return
        self._remember(key, _Written(body["metadata"]["name"], body["count"], body["count"], _clock()))
        await self._client.create_event(job.namespace, body)

    def _is_new(self, noted: int) -> bool:
        if noted in self._noted:
            return False
        self._noted[noted] = None
        if len(self._noted) > REMEMBERED:
            self._noted.popitem(last=False)
        return True

    def _budget(self, uid: str, *, again: bool) -> _EventBudget:
        now = _clock()
        found = self._budgets.pop((uid, again), None) or _EventBudget(now)
        _drop(self._budgets, lambda first: first.earned(now) >= BURST)
        self._budgets[uid, again] = found
        return found

    def _remember(self, key: tuple[str, str], written: _Written) -> None:
        self._written.pop(key, None)
        _drop(self._written, lambda first: written.at - first.at > SAME)
        self._written[key] = written


def _drop(remembered: OrderedDict[Any, T], expired: Callable[[T], bool]) -> None:
    """Remove the oldest entries while they expire or leave no room for another."""
    while remembered and (len(remembered) >= REMEMBERED or expired(next(iter(remembered.values())))):
        remembered.popitem(last=False)


def _subject(job: Job) -> Subject:
    return Subject(job.api_version, job.kind, job.namespace, job.name, job.uid, job.version)


def _message(event: Event, names: list[str]) -> str:
    listed = sorted(filter(None, names), key=_place)
    if not listed:
        return _cut(event.message)
    return _cut(f"{event.message}: {enumeration(listed, MAX_NAMED)}")


def _place(name: str) -> tuple[str, int, str]:
    """Sort key: worker 2 before worker 10, whichever was created first, so that equal lists make equal Events."""
    return name.rstrip("0123456789"), len(name), name


def _cut(text: str) -> str:
    content = text.encode()
    return (
        text
        if len(content) <= MAX_EVENT_MESSAGE_BYTES
        else content[: MAX_EVENT_MESSAGE_BYTES - 4].decode(errors="ignore") + " ..."
    )


def _event(job: Subject, event: Event, counted: tuple[str, int], at: datetime) -> dict[str, Any]:
    message, times = counted
    content = f"{event.reason}\n{message}\n{at.isoformat()}"
    digest = hashlib.sha256(f"{job.uid}\n{event.key or content}".encode()).hexdigest()[:16]
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
        "type": str(event.type),
        "reason": event.reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": times,
    }


def _clock() -> float:
    return asyncio.get_running_loop().time()

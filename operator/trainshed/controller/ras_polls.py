"""Asks NCCL's RAS what the ranks of jobs with a hang deadline do: one pod of each job, and few jobs at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import msgspec
from msgspec.structs import replace

from trainshed.api.job import ASIDE, Job
from trainshed.api.objects import Pod
from trainshed.api.signs import LateRank, Operations
from trainshed.api.status import ConditionType, Status
from trainshed.client import ApiError
from trainshed.client.port_forward import Dialogue
from trainshed.plan.messages import standstill
from trainshed.process import job_fields
from trainshed.progress.nccl_ras import PORT, HangVerdict, Query, RasError, Stillness, TextOnly, verdict
from trainshed.progress.stragglers import Lags

from .cache import Cache
from .events import EventRecorder
from .store import CachedJob
from .training_pods import with_ranks

#: Seconds between two checks of which jobs are due, and the fewest and the most between two answers of a job.
POLL_SECONDS, SHORTEST, LONGEST = 5.0, 15.0, 120.0
#: How often a job is asked within its deadline, how many are asked at a time, how many of these have not answered the
#: last time, so that they take no time from others, and the seconds that an answer may take.
POLLS, AT_A_TIME, SILENT, PATIENCE = 10, 8, 2, 10.0
#: The most late ranks that are kept.
MOST_LATE = 64

log = logging.getLogger(__name__)


class Forward(Protocol):
    """Speaks with ports of pods; raises any `ApiError`."""

    async def converse(self, pod: tuple[str, str], port: int, dialogue: Dialogue, seconds: float) -> None:
        """Speak with a port of a pod, named by namespace and name."""
        ...


class _Asked(msgspec.Struct):
    """A job that is asked: its pods, what they have answered, since when they have not, and the next time and pod."""

    pods: frozenset[str]
    due: float
    still: Stillness | None = None
    lags: Lags | None = None
    failing: float | None = None
    turn: int = 0


class RasPolls:
    """Asks while `may_act` returns true; what the ranks do becomes part of the snapshots of the job's cache."""

    def __init__(self, forward: Forward, recorder: EventRecorder, now: Callable[[], datetime]) -> None:
        self._forward = forward
        self._recorder = recorder
        self._now = now
        self._known: dict[str, _Asked] = {}
        self._busy: set[str] = set()
        self._room, self._room_of_silent = asyncio.Semaphore(AT_A_TIME), asyncio.Semaphore(SILENT)
        self._judging = asyncio.Semaphore(1)

    async def run(self, caches: Iterable[Cache], may_act: Callable[[], bool]) -> None:
        """Ask without end."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                for cache, record, pods in self._due(caches) if may_act() else self._step_down(caches):
                    self._busy.add(record.uid)
                    task = group.create_task(self._ask(cache, record, pods))
                    task.add_done_callback(partial(self._done, record.uid))

    async def ask_due(self, caches: Iterable[Cache]) -> None:
        """Ask the jobs that are due, and wait for their answers."""
        await asyncio.gather(*(self._ask(*due) for due in self._due(caches)))

    def _step_down(self, caches: Iterable[Cache]) -> tuple[()]:
        self._known.clear()
        for cache in caches:
            cache.training.operations.clear()
        return ()

    def _done(self, uid: str, _task: asyncio.Task[None]) -> None:
        self._busy.remove(uid)

    def _due(self, caches: Iterable[Cache]) -> Iterator[tuple[Cache, CachedJob, tuple[Pod, ...]]]:
        """Yield the jobs that are to be asked now, each with its pods that train; forget all that have ended."""
        now, seen = self._now().timestamp(), set()
        for cache in caches:
            for record in [job for store in cache.jobs.values() for job in store.items.values()]:
                pods = _pods(cache, record) if _is_asked(record.job, record.status) else ()
                if not pods:
                    cache.training.operations.pop(record.uid, None)
                    continue
                seen.add(record.uid)
                known, uids = self._known.get(record.uid), frozenset(pod.uid for pod in pods)
                if known is None or known.pods != uids:
                    self._known[record.uid] = known = _Asked(uids, now + SHORTEST)
                    cache.training.operations.pop(record.uid, None)
                if known.due <= now and record.uid not in self._busy:
                    known.due = now + min(max(SHORTEST, (record.job.hang_deadline or 0) / POLLS), LONGEST)
                    yield cache, record, pods
        self._known = {uid: known for uid, known in self._known.items() if uid in seen}

    async def _ask(self, cache: Cache, record: CachedJob, pods: tuple[Pod, ...]) -> None:
        """Ask one pod of a job; after a failure the next one."""
        known, job, now = self._known[record.uid], record.job, self._now().timestamp()
        pod, query = pods[known.turn % len(pods)], Query(len(pods))
        try:
            async with self._room_of_silent if known.failing is not None else nullcontext(), self._room:
                await self._forward.converse((pod.namespace, pod.name), PORT, query, PATIENCE)
                async with self._judging:  # a large answer takes twenty times its size meanwhile
                    answer = await asyncio.to_thread(_judged, query, known, (job, self._now().timestamp()))
        except (ApiError, RasError) as error:
            log.debug("%s: %s", job.key, error, extra=job_fields(job.key))
            known.turn += 1
            known.failing = now if known.failing is None else known.failing
            if isinstance(error, TextOnly) or now - known.failing >= (job.hang_deadline or 0):
                self._recorder.record(job, standstill.unheard(str(error), supported=not isinstance(error, TextOnly)))
                known.due = max(known.due, now + LONGEST)
            return
        if self._known.get(record.uid) is not known:
            return  # its pods have been replaced
        counts = answer.lags is not known.lags
        known.still, known.lags, known.failing = answer.still, answer.lags, None
        if counts and known.lags.points:
            known.turn += 1  # who is asked is read first, and seems to lag
        before = cache.training.operations.get(record.uid, Operations(self._now(), 0))
        cache.training.operations[record.uid] = after = _operations(answer, pods)
        is_news = before.hang != after.hang or _names(before) != _names(after)
        if is_news or record.status.true(ConditionType.STALLED):
            cache.wake(job.key)


class _Judged(msgspec.Struct, frozen=True):
    """What follows from all answers so far, and how many ranks the last one has."""

    still: Stillness
    lags: Lags
    found: HangVerdict
    ranks: int


def _judged(query: Query, known: _Asked, about: tuple[Job, float]) -> _Judged:
    """Return what follows from one more answer about a job at this time; raises `RasError`. It may take long."""
    job, now = about
    poll = query.answer(now)
    still = known.still.then(poll) if known.still else Stillness.of(poll)
    least = sum(group.count for group in job.groups if group.role not in ASIDE)
    lags = known.lags.then(poll, least) if known.lags else Lags.of(poll)
    return _Judged(still, lags, verdict(poll, still, least, float(job.hang_deadline or 0)), poll.ranks)


def _names(found: Operations) -> tuple[tuple[int, str], ...]:
    return tuple((one.rank, one.host) for one in found.slow or ())


def _is_asked(job: Job, status: Status) -> bool:
    is_running = status.true(ConditionType.RUNNING) and not status.over and not status.ending
    return job.hang_deadline is not None and is_running and not job.deleting and not job.policy.managed_elsewhere


def _pods(cache: Cache, record: CachedJob) -> tuple[Pod, ...]:
    return with_ranks(record.job, cache.frameworks[record.job.kind], cache.pods.of(record.as_owner))


def _operations(answer: _Judged, pods: Iterable[Pod]) -> Operations:
    still, found, named = answer.still, answer.found, answer.lags.named
    slow = None if named is None else _placed(named, pods)
    moved = datetime.fromtimestamp(still.since, UTC)
    late = _placed(found.behind[:MOST_LATE], pods) if found.hang else ()
    return Operations(moved, still.polls, found.hang, late, answer.ranks, slow)


def _placed(late: Iterable[LateRank], pods: Iterable[Pod]) -> tuple[LateRank, ...]:
    """Return the ranks with pod and node; pods with the network of their node share its address."""
    by_ip: dict[str, list[Pod]] = {}
    for pod in pods:
        by_ip.setdefault(pod.ip, []).append(pod)
    return tuple(_at(one, by_ip.get(one.host, [])) for one in late)


def _at(rank: LateRank, pods: list[Pod]) -> LateRank:
    if not pods:
        return rank
    return replace(rank, pod=pods[0].name if len(pods) == 1 else "", node=pods[0].node)

"""One run of a drill: waits for a step, does what a fault does, and watches until enough was seen."""

from __future__ import annotations

import asyncio
import math
import signal
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainshed.api import status_codec
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.api.objects import JOB_ROLE_LABEL
from trainshed.api.status import ConditionType
from trainshed.api.trainer_status import TrainerStatus
from trainshed.local.direction import Direction
from trainshed.local.options import LocalJob
from trainshed.local.output import is_named
from trainshed.local.runtimes.protocol import LogSink
from trainshed.local.stored_objects import POD, Stored
from trainshed.plan.messages.phrases import plural

from . import checkpoints
from .faults import (
    AnyFault,
    Evict,
    KillAll,
    KillInWrite,
    KillRank,
    LoseNode,
    OfReplica,
    OutOfMemory,
    Resize,
    Stall,
    Suspend,
)  # fmt: skip
from .file_events import FileEvents, empty, writers
from .observation import Ending, Observation, ReplicaEnd
from .step_log import SHOWN, StepLog

#: Seconds between two checks at most, and at least; those for which a program that was stopped may still run.
LONGEST, SHORTEST, STOPS = 1.0, 0.02, 0.5
#: The reports after a fault that are enough, and how often a write is tried to be hit.
ENOUGH, TRIES = 8, 3
#: How often a replica may fail in a row, the fault among it.
FAILURES = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends: at the step `steps`, the time `until` of the clock, or `training` seconds after its first step.

    `at_step` is when the fault comes, `folders` are what is watched besides the volumes of the job, and `logs` are the
    files that only grow.
    """

    until: float
    steps: int | None = None
    at_step: int | None = None
    folders: tuple[Path, ...] = ()
    logs: frozenset[str] = frozenset()
    training: float = math.inf


class _Over(Exception):
    """There is nothing more to wait for."""


@dataclass
class Rehearsal:
    """Implements `trainshed.local.direction.Director`. `resized` is the job with another number of replicas."""

    item: LocalJob
    fault: AnyFault | None
    limits: Limits
    clock: Callable[[], float]
    resized: LocalJob | None = None
    observation: Observation | None = None
    _ends: list[ReplicaEnd] = field(default_factory=list)
    _asked: dict[str, tuple[float, float]] = field(default_factory=dict)
    _seen: dict[str, Any] = field(default_factory=dict)
    _struck: dict[str, str] = field(default_factory=dict)
    _terminated: set[tuple[str, str]] = field(default_factory=set)
    _old: frozenset[str] = frozenset()
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self, logs: LogSink) -> LogSink:
        """Return what reads steps."""
        self._log = StepLog(self.item, logs, self.clock, self._news.set)
        return self._log

    def hear(self, report: TrainerStatus, pod: tuple[str, str]) -> None:
        """Take a report that the training has sent."""
        self._log.hear(report, pod)

    async def direct(self, direction: Direction) -> None:
        """Do everything."""
        self._direction = direction
        began, ending = self.clock(), Ending.ENOUGH
        self._files = FileEvents(self.clock)
        folders = (*direction.volumes, *self.limits.folders)
        self._files.start(folders)
        direction.cluster.listeners.append(self._on_change)
        try:
            if self.fault is None:
                await self._until(self._has_all_steps)
            else:
                await self._until(lambda: self._reached(self.limits.at_step or 0))
                await self._strike(self.fault)
                await self._until(self._has_enough)
        except _Over:
            ending = Ending.OVER if self._is_over() else Ending.STUCK if self._is_stuck() else Ending.LATE
        finally:
            self._files.stop()
            self.observation = self._observed(began, ending, tuple(map(str, folders)))

    def _observed(self, began: float, ending: Ending, folders: tuple[str, ...]) -> Observation:
        status = status_codec.parse_status(self._job)
        failed = status.condition(ConditionType.FAILED)
        return Observation(
            began, self.clock(), ending, status.current_state,
            reports=tuple(self._log.reports), ends=tuple(self._ends), files=tuple(self._files.found), folders=folders,
            unseen_files=self._files.problem, message=failed.message if failed and failed.true else "",
            instead=self._instead(), **self._seen,
        )  # fmt: skip

    def _instead(self) -> str:
        """Return what the training says in place of steps."""
        if count := self._log.without_step:
            return f"it has sent {plural(count, 'report')} without a step, which is the metric current_step"
        pod, line = self._log.leader, self._log.last_line()
        return f"the last line of {pod} was {line!r}" if line else f"{pod} has printed nothing"

    @property
    def _job(self) -> Stored:
        job = self.item.job
        return self._direction.cluster.find(job.kind, job.namespace, job.name) or {}

    @property
    def _pods(self) -> list[Stored]:
        return self._direction.pods(self._job["metadata"]["uid"])

    async def _until(self, met: Callable[[], bool]) -> None:
        """Wait until a condition is met; raises `_Over` if that will not be."""
        while not met():
            left = self._latest() - self.clock()
            if self._is_over() or self._is_stuck() or left < 0:
                raise _Over
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), min(left + SHORTEST, LONGEST))
            await asyncio.sleep(SHORTEST)  # what comes at once is checked once
            self._news.clear()

    def _latest(self) -> float:
        """Return when the run ends at the latest."""
        return min(self.limits.until, *(report.at + self.limits.training for report in self._log.reports[:1]), math.inf)

    def _is_over(self) -> bool:
        return status_codec.parse_status(self._job).over

    def _reached(self, step: int) -> bool:
        return any(report.step >= step for report in self._log.reports[-1:])

    def _has_all_steps(self) -> bool:
        return self.limits.steps is not None and self._reached(self.limits.steps)

    def _has_enough(self) -> bool:
        """Return whether all replicas run again, and there are enough reports since then."""
        at = self._seen.get("back_at")
        if at is None:
            if self._all_run():
                self._seen["back_at"] = self.clock()
            return False
        reports = self._log.reports
        later = len(reports) - bisect_right(reports, at, key=lambda report: report.at)
        return later >= ENOUGH or (later > 0 and self._has_all_steps())

    def _all_run(self) -> bool:
        """Return whether all replicas run, and those that the fault has ended were started again."""
        pods = (pod for pod in self._pods if pod["status"].get("phase") in ("Running", "Succeeded"))
        starts = {pod["metadata"]["name"]: _starts(pod) for pod in pods}
        wanted = (self.resized if isinstance(self.fault, Resize) and self.resized else self.item).pod_names
        return all(name in starts and starts[name] != self._struck.get(name) for name in wanted)

    def _is_stuck(self) -> bool:
        """Return whether a replica has failed several times since the fault, if there is one, and no step has come."""
        at = self._seen.get("fault_at", -math.inf)
        if (self.fault and "fault_at" not in self._seen) or (self._log.reports[-1:] and self._log.reports[-1].at > at):
            return False
        failed = Counter(end.pod for end in self._ends if end.at > at and end.code and end.asked is None)
        return max(failed.values(), default=0) > FAILURES

    async def _strike(self, fault: AnyFault) -> None:
        """Do what a fault does."""
        pods = self._pods
        self._old = frozenset(str(pod["metadata"]["uid"]) for pod in pods)
        victims = [pod for pod in pods if self._is_meant(fault, pod)]
        names = [str(pod["metadata"]["name"]) for pod in victims]
        if not isinstance(fault, Stall):
            self._struck = {pod["metadata"]["name"]: _starts(pod) for pod in victims}
        if isinstance(fault, KillInWrite):
            await self._kill_in_write(names)
            return
        self._seen["fault_at"] = self.clock()
        self._seen["what"] = self._said(fault, names)
        kubelet = self._direction.kubelet
        match fault:
            case KillRank() | KillAll():
                for name in names:
                    kubelet.kill(name)
            case OutOfMemory():
                kubelet.kill(names[0], "OOMKilled")
            case LoseNode():
                kubelet.lose(names[0])
            case Evict():
                self._direction.evict(victims[0])
            case Stall():
                kubelet.signal(names[0], signal.SIGSTOP)
                await asyncio.sleep(fault.seconds)
                kubelet.signal(names[0], signal.SIGCONT)
            case Suspend() | Resize():
                await self._suspend(self.resized if isinstance(fault, Resize) and self.resized else self.item)

    def _said(self, fault: AnyFault, names: list[str]) -> str:
        if isinstance(fault, Resize) and self.resized:
            return f"{len(self.resized.pod_names)} in place of {len(self.item.pod_names)} replicas"
        return ", ".join(names)

    def _is_meant(self, fault: AnyFault, pod: Stored) -> bool:
        """Return whether a fault strikes a pod; without a name one strikes the last that does not lead."""
        if not isinstance(fault, OfReplica):
            return True
        name = str(pod["metadata"]["name"])
        if fault.replica:
            return is_named(fault.replica, self.item.job.name, name)
        return name == victim(self.item)

    async def _suspend(self, then: LocalJob) -> None:
        """Suspend the job, wait until no pod is left, and resume it as it is `then`."""
        cluster = self._direction.cluster
        cluster.apply(with_suspend(self.item.runnable, suspend=True))
        await self._until(lambda: not any(True for _ in cluster.of(POD)) and not self._direction.kubelet.running())
        cluster.apply(with_suspend(then.runnable, suspend=False))

    async def _kill_in_write(self, names: list[str]) -> None:
        """Kill all replicas while one has a checkpoint open; if no write lasts long enough, right after one."""
        kubelet, writes = self._direction.kubelet, asyncio.Queue[Path]()

        def on_write(path: Path) -> None:
            writes.put_nowait(path)
            self._news.set()

        self._files.on_write = on_write
        for tried in range(TRIES):
            path = await self._next_write(writes)
            for name in names:
                kubelet.signal(name, signal.SIGSTOP)
            held = await self._is_held(path)
            if held or tried == TRIES - 1 or self._is_last_chance():
                cut = not held and self._is_cut(path)
                self._seen |= {"fault_at": self.clock(), "target": one_line(path.name, SHOWN), "hit": held, "cut": cut}
                self._seen["what"] = ", ".join(names)
                for name in names:
                    kubelet.kill(name)
                return
            for name in names:
                kubelet.signal(name, signal.SIGCONT)
            while not writes.empty():
                writes.get_nowait()

    async def _next_write(self, writes: asyncio.Queue[Path]) -> Path:
        """Return the next file that is written, and is no log; raises `_Over` if none is."""
        found: list[Path] = []

        def is_written() -> bool:
            while not found and not writes.empty():
                path = writes.get_nowait()
                name = checkpoints.relative(str(path), self._roots)
                if name not in self.limits.logs and not checkpoints.is_own(name):
                    found.append(path)
            return bool(found)

        await self._until(is_written)
        return found[0]

    @property
    def _roots(self) -> tuple[str, ...]:
        return tuple(map(str, (*self._direction.volumes, *self.limits.folders)))

    def _is_last_chance(self) -> bool:
        """Return whether the training may end before there is another write."""
        last = self._log.reports[-1:]
        return bool(last and self.limits.steps and last[0].step + self._interval() >= self.limits.steps)

    def _interval(self) -> int:
        """Return how many steps are between two writes, at most."""
        return checkpoints.interval(self._files.found, self._log.reports, self._roots)

    async def _is_held(self, path: Path) -> bool:
        """Return whether a program that has stopped has a file open to write it, and much of it is missing."""
        end = self.clock() + STOPS
        while self.clock() < end:
            await asyncio.sleep(SHORTEST / 4)
            pids = await asyncio.to_thread(writers, path)
            if not pids:
                return False
            if all(map(_has_stopped, pids)):
                return not self._files.is_complete(path)
        return False

    def _is_cut(self, path: Path) -> bool:
        """Empty a file that was written where it is, as a kill during the write leaves it; return whether it is empty.

        All replicas have stopped. It is left alone if something was written after it, which they only do later.
        """
        self._files.catch_up()
        if checkpoints.was_last_in_place(self._files.found, str(path)):
            root = next(root for root in self._roots if str(path).startswith(f"{root}/"))
            with suppress(OSError):
                empty(Path(root), path)
                return True
        return False

    def _on_change(self, kind: str, before: Stored | None, after: Stored | None) -> None:
        """Note which pods are asked to end, and which containers have ended."""
        self._news.set()
        if kind != POD:
            return
        pod = after or before or {}
        metadata, now = pod["metadata"], self.clock()
        uid = str(metadata["uid"])
        if "deletionTimestamp" in metadata and uid not in self._asked and metadata["deletionGracePeriodSeconds"]:
            self._asked[uid] = (now, float(metadata["deletionGracePeriodSeconds"]))
        for status in pod.get("status", {}).get("containerStatuses") or ():
            ended = status["state"].get("terminated") or status["lastState"].get("terminated")
            key = (uid, f"{status['name']} {ended['finishedAt'] if ended else ''}")
            if ended and key not in self._terminated:
                self._terminated.add(key)
                asked, grace = self._asked.get(uid, (None, 0.0))
                line = self._log.last_line(metadata["name"])
                again = bool(self._old) and uid not in self._old
                facts = (now, metadata["name"], ended["exitCode"], ended["reason"], asked, grace, line, again)
                self._ends.append(ReplicaEnd(*facts))


def victim(item: LocalJob) -> str:
    """Return the pod that a fault strikes if it is not said which: the last one that does not lead."""
    others = [pod for pod in item.pods if JOB_ROLE_LABEL not in pod["metadata"]["labels"]] or item.pods
    return str(others[-1]["metadata"]["name"])


def with_suspend(document: Document, *, suspend: bool) -> Document:
    """Return a job that is suspended, or not."""
    spec = document["spec"]
    return {**document, "spec": {**spec, "runPolicy": {**(spec.get("runPolicy") or {}), "suspend": suspend}}}


def _starts(pod: Stored) -> str:
    """Return what changes when a replica is started again: the uid of its pod, or the number of restarts in it."""
    counts = (status["restartCount"] for status in pod["status"].get("containerStatuses") or ())
    return f"{pod['metadata']['uid']} {sum(counts)}"


def _has_stopped(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t")
    return False

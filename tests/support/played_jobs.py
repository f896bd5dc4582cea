"""Jobs whose pods live as a test says: the planner sees their documents as time goes on, and makes the status.

So a page is drawn from what the API server would have, and what it must show is known to the second.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from support.builders import FRAMEWORKS, T0, at
from support.jobs import KINDS
from support.jobs import job as plain_job
from trainshed.api import parse, status_codec
from trainshed.api.actions import ApiRefusal, Snapshot
from trainshed.api.coerce import format_time
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import RESTART_ATTEMPT_ANNOTATION
from trainshed.api.signs import Signs
from trainshed.api.status import Status
from trainshed.api.trainer_status import TrainerStatus
from trainshed.client.decode import PodObject
from trainshed.client.decode import pod as decoded
from trainshed.plan import plan
from trainshed.plan.facts import Facts
from trainshed.ui.model import JobFile, SeenPod
from trainshed.ui.samples import sample_of
from trainshed.views import story

IMAGE = "registry.example/train:1"
#: An operator that may read logs.
DEFAULTS = JobDefaults(progress_logs=True)


@dataclass(frozen=True)
class Life:
    """The life of the pod of a replica, such as `worker-1`: when what happened, in seconds after the job's creation.

    None means never. `waits` are reason and message of a container that has not started, `unplaced` the message of the
    scheduler; `runs` are earlier runs of the container in this pod: begin, end, exit code and reason of each.
    """

    replica: str
    created: float = 0
    scheduled: float | None = 2
    init: tuple[float, float | None] | None = None
    started: float | None = 20
    ready: float | None = None
    ended: float | None = None
    code: int = 0
    reason: str = ""
    message: str = ""
    deleted: float | None = None
    grace: int = 30
    removed: float | None = None
    attempt: int = 0
    node: str = "node-a"
    waits: tuple[str, str] = ("ContainerCreating", "")
    unplaced: str = ""
    runs: tuple[tuple[float, float, int, str], ...] = ()
    disrupted: tuple[float, str] | None = None
    pod_reason: tuple[str, str] = ("", "")
    probed: bool = False

    @property
    def moments(self) -> Iterable[float]:
        """The times at which something happens."""
        times = (self.created, self.scheduled, self.started, self.ready, self.ended, self.deleted, self.removed)
        yield from (time for time in (*times, *(self.init or ())) if time is not None)
        yield from (time for run in self.runs for time in run[:2])
        if self.disrupted:
            yield self.disrupted[0]

    def document(self, job: dict[str, Any], now: float) -> dict[str, Any]:
        """Return the pod as the API server has it at a time."""
        name, container = job["metadata"]["name"], KINDS[job["kind"]].container
        role, _, index = self.replica.rpartition("-") if "-" in self.replica else (self.replica, "", "0")
        metadata: dict[str, Any] = {
            "name": f"{name}-{self.replica}",
            "namespace": "ml",
            "uid": f"{self.replica}-{self.attempt}-{self.created:g}",
            "resourceVersion": str(int(now) + 1),
            "creationTimestamp": format_time(at(self.created)),
            "labels": {
                "training.kubeflow.org/job-name": name,
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": index,
            },
            "annotations": {RESTART_ATTEMPT_ANNOTATION: str(self.attempt)},
            "ownerReferences": [{"kind": job["kind"], "name": name, "uid": job["metadata"]["uid"], "controller": True}],
        }
        if _past(self.deleted, now):
            metadata["deletionTimestamp"] = format_time(at((self.deleted or 0) + self.grace))
            metadata["deletionGracePeriodSeconds"] = self.grace
        spec: dict[str, Any] = {"containers": [{"name": container, "image": IMAGE}]}
        if self.init:
            spec["initContainers"] = [{"name": "fetch", "image": IMAGE}]
        if _past(self.scheduled, now):
            spec["nodeName"] = self.node
        return {"metadata": metadata, "spec": spec, "status": self._status(container, now)}

    def _status(self, container: str, now: float) -> dict[str, Any]:
        over = _past(self.ended, now)
        phase = "Pending"
        if _past(self._first_start, now):
            phase = "Running"
        if over:
            phase = "Failed" if self.code or self.pod_reason[0] else "Succeeded"
        status: dict[str, Any] = {"phase": phase, "conditions": list(self._conditions(now))}
        if over and self.pod_reason[0]:
            status |= {"reason": self.pod_reason[0], "message": self.pod_reason[1]}
        if _past(self.scheduled, now):
            status["containerStatuses"] = [self._container(container, now)]
        if self.init and _past(self.init[0], now):
            begin, end = self.init
            done = _past(end, now)
            ended = {"terminated": {"exitCode": 0, "reason": "Completed", **_times(begin, end or 0)}}
            state = ended if done else {"running": {"startedAt": format_time(at(begin))}}
            status["initContainerStatuses"] = [_named("fetch", state, ready=done)]
        return status

    @property
    def _first_start(self) -> float | None:
        return self.runs[0][0] if self.runs else self.started

    def _conditions(self, now: float) -> Iterable[dict[str, Any]]:
        if _past(self.scheduled, now):
            yield _condition("PodScheduled", self.scheduled or 0)
            yield _condition("PodReadyToStartContainers", (self.scheduled or 0) + 1)
        elif self.unplaced:
            yield _condition("PodScheduled", self.created, "False", "Unschedulable", self.unplaced)
        if self._is_ready(now):
            yield _condition("Ready", self._ready_since or 0)
        if self.disrupted and _past(self.disrupted[0], now):
            yield _condition("DisruptionTarget", self.disrupted[0], reason=self.disrupted[1])

    @property
    def _ready_since(self) -> float | None:
        return self.ready if self.ready is not None else None if self.probed else self.started

    def _is_ready(self, now: float) -> bool:
        return _past(self._ready_since, now) and _past(self.started, now) and not _past(self.ended, now)

    def _container(self, name: str, now: float) -> dict[str, Any]:
        begun = [run for run in self.runs if run[0] <= now]
        ended = [run for run in begun if run[1] <= now]
        state: dict[str, Any] = {"waiting": {"reason": self.waits[0], "message": self.waits[1]}}
        restarts, last = len(ended), ended[-1] if ended else None
        if _past(self.ended, now) and _past(self.started, now):
            reason = self.reason or ("Error" if self.code else "Completed")
            times = _times(self.started or 0, self.ended or 0)
            state = {"terminated": {"exitCode": self.code, "reason": reason, "message": self.message, **times}}
        elif _past(self.started, now):
            state = {"running": {"startedAt": format_time(at(self.started or 0))}}
        elif begun and begun[-1][1] > now:
            state = {"running": {"startedAt": format_time(at(begun[-1][0]))}}
        elif last:
            state = {
                "waiting": {"reason": "CrashLoopBackOff", "message": f"back-off restarting failed container {name}"}
            }
        found = _named(name, state, ready=self._is_ready(now), restarts=restarts)
        if last:
            terminated = {"exitCode": last[2], "reason": last[3], "message": self.message, **_times(last[0], last[1])}
            found["lastState"] = {"terminated": terminated}
        return found


def _past(time: float | None, now: float) -> bool:
    return time is not None and time <= now


def _times(begin: float, end: float) -> dict[str, str]:
    return {"startedAt": format_time(at(begin)), "finishedAt": format_time(at(end))}


def _named(name: str, state: dict[str, Any], *, ready: bool, restarts: int = 0) -> dict[str, Any]:
    known = {"name": name, "image": IMAGE, "imageID": "", "restartCount": restarts}
    return {**known, "state": state, "ready": ready, "started": "running" in state}


def _condition(kind: str, since: float, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(at(since)),
    }


def a_document(
    kind: str = "PyTorchJob",
    name: str = "mnist",
    *,
    policy: dict[str, Any] | None = None,
    restart: str = "OnFailure",
    limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **roles: int,
) -> dict[str, Any]:
    """Return the document of a job that was created at `T0`."""
    found = plain_job(kind, name, policy=policy, restart=restart, **(roles or {"Master": 1, "Worker": 3}))
    found["metadata"] = {
        "name": name,
        "namespace": "ml",
        "uid": "job-uid",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": format_time(T0),
        "annotations": annotations or {},
        "labels": labels or {},
    }
    for replica in found["spec"][KINDS[kind].field].values():
        own = replica["template"]["spec"]["containers"][0]
        own |= {"image": IMAGE, "resources": {"limits": limits or {"nvidia.com/gpu": "8", "memory": "64Gi"}}}
        own["command"] = ["python", "train.py"]
    return found


@dataclass
class Play:
    """A job and the lives of its pods. `refusals` are reasons and messages of the API server from a time on.

    `trains` gives what the training reports at a time, `extra` are further times at which the operator reconciles.
    """

    job: dict[str, Any]
    lives: tuple[Life, ...] = ()
    refusal: tuple[float, str, str] | None = None
    trains: Callable[[float], TrainerStatus | None] | None = None
    signs: Callable[[float], Signs] = lambda _: Signs()
    extra: tuple[float, ...] = ()
    beside: story.Beside = field(default_factory=story.Beside)
    events: tuple[dict[str, Any], ...] = ()

    def file(self, now: float) -> JobFile:
        """Return what is known of the job at a time."""
        status, samples, events, said = Status(), [], [], set()
        for moment in self._reconciles(now):
            snapshot = self._snapshot(status, moment)
            found = plan(snapshot)
            status = found.status
            new = [one for one in found.events if not one.key or one.key not in said]
            said |= {one.key for one in new}
            events += [_event(self.job, one, moment) for one in new]
            sample = sample_of(status)
            if sample and (not samples or samples[-1].time < sample.time):
                samples.append(sample)
        last = self._snapshot(status, now)
        written = status_codec.status_patch(last.job, Status(), status)["status"]
        document = copy.deepcopy(self.job) | {"status": written}
        facts = Facts(last)
        return JobFile(
            document,
            status_codec.parse_status(document),
            tuple(self._seen(now)),
            tuple(samples),
            (*events, *self.events),
            story.tell(facts, document, self.beside),
        )

    def _reconciles(self, now: float) -> list[float]:
        moments = {time + 1 for life in self.lives for time in life.moments} | {1.0, *self.extra, now}
        return sorted(moment for moment in moments if moment <= now)

    def _snapshot(self, status: Status, now: float) -> Snapshot:
        framework = FRAMEWORKS[self.job["kind"]]
        there = (life for life in self.lives if life.created <= now and not _past(life.removed, now))
        refused = self.refusal is not None and self.refusal[0] <= now
        return Snapshot(
            job=parse.job(self.job, framework, DEFAULTS),
            framework=framework,
            job_defaults=DEFAULTS,
            status=status,
            pods=tuple(decoded(msgspec.convert(life.document(self.job, now), PodObject)) for life in there),
            services=(),
            now=at(now),
            refusal=ApiRefusal(*self.refusal[1:]) if self.refusal and refused else None,
            training=self.trains(now) if self.trains else None,
            signs=self.signs(now),
        )

    def _seen(self, now: float) -> Iterable[SeenPod]:
        for life in self.lives:
            if life.created > now:
                continue
            gone = life.removed if _past(life.removed, now) else None
            last = now if gone is None else gone
            yield SeenPod(life.document(self.job, last), at(gone) if gone is not None else None)


def _event(job: dict[str, Any], found: Any, moment: float) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{job['metadata']['name']}.{moment:g}", "namespace": "ml"},
        "type": str(found.type),
        "reason": found.reason,
        "message": found.message,
        "count": 1,
        "lastTimestamp": format_time(at(moment)),
        "involvedObject": {"kind": job["kind"], "name": job["metadata"]["name"]},
    }

"""A stage for whole lives: a server, its garbage collector, replicas of the operator, and a kubelet that obeys."""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable
from typing import Any

from support.audit.change import CREATED, DELETED, KUBELET, USER, Change
from trainshed.api.framework import Framework
from trainshed.frameworks import served

from .answers import Refusal
from .collector import Collector
from .faults import Fair, Weather
from .loop import VirtualLoop
from .machine import EPOCH, Machine
from .resources import BUILT_IN, custom
from .server import Server

Document = dict[str, Any]
NAMESPACE = "ml"
#: Seconds that the garbage collector takes to notice something, and a kubelet to start a pod or to stop one.
SWEEP, START, STOP = 0.5, 0.3, 0.2


class Stage:
    """Everything in one place; the same seed makes the same play. Leave it with `close`."""

    def __init__(
        self,
        seed: int = 0,
        replicas: int = 2,
        weather: Weather | None = None,
        kinds: tuple[Framework, ...] = (),
        mpi: str = "v1",
    ) -> None:
        random.seed(seed)  # the operator's own chance: only to spread tries
        self.loop = VirtualLoop()
        self.server = Server(self.now, seed, BUILT_IN + custom(mpi))
        for name in ("trainshed-system", NAMESPACE):
            self.server.make_namespace(name)
        self.collector = Collector(self.server)
        self.machines = [
            Machine(self.loop, self.server, name, weather or Fair(), kinds or served(mpi, ()))
            for name in "abcdefgh"[:replicas]
        ]
        self._sweeps = False
        self._world = contextvars.copy_context()
        self.server.changes.append(self._sweep_later)

    def now(self) -> float:
        """The time of day by the server's clock, in seconds since 1970."""
        return EPOCH + self.loop.time()

    def start(self) -> None:
        """Start all replicas."""
        for machine in self.machines:
            machine.start()

    def close(self) -> None:
        """End everything; raises what went wrong unseen."""
        for machine in self.machines:
            machine.crash()
        self.loop.close()
        assert not self.loop.errors, self.loop.errors

    def later(self, seconds: float, what: Callable[..., object], *words: object) -> None:
        """Let something happen in so many seconds, whatever becomes of the process whose doing made it due."""
        self.loop.call_later(seconds, what, *words, context=self._world)

    def submit(self, job: Document) -> Document:
        """A user makes a job."""
        return self.server.request(USER, "POST", jobs(job["kind"]), body=job)

    def job(self, kind: str, name: str) -> Document | None:
        """A job as it is now, or None."""
        return self.server.object(f"{jobs(kind)}/{name}")

    def _sweep_later(self, change: Change) -> None:
        metadata, place = change.object["metadata"], self.server.storage.place
        goes = change.verb == DELETED or "deletionTimestamp" in metadata
        owners = metadata.get("ownerReferences", ()) if change.verb == CREATED else ()
        if not self._sweeps and (goes or any(place(owner["uid"]) is None for owner in owners)):
            self._sweeps = True
            self.later(SWEEP, self._sweep)

    def _sweep(self) -> None:
        self._sweeps = False
        self.collector.sweep_all()


class Kubelet:
    """Runs every pod; those whose name ends in one of `ends` end well after so many seconds."""

    def __init__(self, stage: Stage, ends: dict[str, float]) -> None:
        self._stage = stage
        self._ends = ends
        stage.server.changes.append(self._hear)

    def _hear(self, change: Change) -> None:
        if change.plural != "pods" or change.verb == DELETED:
            return
        later = self._stage.later
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{change.object['metadata']['name']}"
        if change.verb == CREATED:
            later(START, self._run, path)
        elif change.vanishing:
            known = {"uid": change.object["metadata"]["uid"]}
            later(STOP, self._ask, "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": known})

    def _run(self, path: str) -> None:
        self._ask("POST", f"{path}/binding", {"target": {"name": "node-a"}})
        self._tell(path, "Running", {"running": {"startedAt": self._stage.server.registry.stamp()}})
        for suffix, seconds in self._ends.items():
            if path.endswith(suffix):
                self._stage.later(seconds, self._end, path)

    def _end(self, path: str) -> None:
        self._tell(
            path, "Succeeded", {"terminated": {"exitCode": 0, "finishedAt": self._stage.server.registry.stamp()}}
        )

    def _tell(self, path: str, phase: str, state: Document) -> None:
        pod = self._stage.server.object(path)
        if pod is None:
            return
        runs = phase == "Running"
        about = [
            {"name": container["name"], "ready": runs, "restartCount": 0, "state": state}
            for container in pod["spec"]["containers"]
        ]
        conditions = [{"type": "Ready", "status": str(runs)}]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": about}
        self._ask("PATCH", f"{path}/status", {"status": status})

    def _ask(self, verb: str, path: str, body: Document) -> None:
        try:
            self._stage.server.request(KUBELET, verb, path, body=body)
        except Refusal as refusal:
            if refusal.code not in (404, 409):  # it is gone, or another has its name
                raise


def jobs(kind: str) -> str:
    """Where the jobs of a kind are."""
    return f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/{kind.lower()}s"

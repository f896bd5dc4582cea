"""The status of a pod from the states of its containers, by the kubelet's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainshed.api.coerce import EARLIEST
from trainshed.api.job import Document
from trainshed.local.stored_objects import timestamp

CREATING: Document = {"waiting": {"reason": "ContainerCreating"}}
INITIALIZING: Document = {"waiting": {"reason": "PodInitializing"}}
#: The exit code of a container that was never started, as containerd reports it.
NOT_STARTED = 128


@dataclass(slots=True)
class ContainerRecord:
    """The state of a container: one of `waiting`, `running` and `terminated`, as in its status."""

    spec: Document
    init: bool = False
    state: Document = field(default_factory=lambda: CREATING)
    last_state: Document = field(default_factory=dict)
    #: How often it was started, also in vain.
    tries: int = 0
    started: datetime | None = None

    @property
    def name(self) -> str:
        """The name of the container."""
        return str(self.spec["name"])

    @property
    def sidecar(self) -> bool:
        """True for an init container that runs beside the others (KEP-753)."""
        return self.init and self.spec.get("restartPolicy") == "Always"

    @property
    def exit_code(self) -> int | None:
        """The exit code of a container that has ended for good, None otherwise."""
        ended = self.state.get("terminated")
        return int(ended["exitCode"]) if ended else None

    @property
    def runs(self) -> bool:
        """True while the container runs."""
        return "running" in self.state

    @property
    def restarts(self) -> int:
        """The number of starts after the first one."""
        return max(0, self.tries - 1)

    def wait(self, reason: str, message: str = "") -> None:
        """Note that the container waits to be started, or to be started again."""
        if "terminated" in self.state:
            self.last_state = self.state
        self.state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}

    def run(self, now: datetime) -> None:
        """Note that the container was started."""
        self._try()
        self.started = now
        self.state = {"running": {"startedAt": timestamp(now)}}

    def not_started(self, now: datetime, message: str) -> None:
        """Note that the container could not be started, which counts like a run, as for a kubelet."""
        self._try()
        self.end(NOT_STARTED, now, message, "StartError")
        self.state["terminated"]["startedAt"] = timestamp(EARLIEST)  # as containerd does

    def end(self, code: int, now: datetime, message: str = "", reason: str = "") -> None:
        """Note that the container has ended."""
        self.state = {
            "terminated": {
                "exitCode": code,
                "reason": reason or ("Error" if code else "Completed"),
                "startedAt": timestamp(self.started or now),
                "finishedAt": timestamp(now),
            }
            | ({"message": message} if message else {})
        }

    def _try(self) -> None:
        self.tries += 1
        if "terminated" in self.state:
            self.last_state = self.state

    def status(self) -> Document:
        """Return the container's status."""
        return {
            "name": self.name,
            "image": self.spec.get("image", ""),
            "imageID": "",
            "ready": self.runs or (self.init and self.exit_code == 0),
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }


@dataclass(slots=True)
class PodRecord:
    """A pod and its containers. `stopped` is whether its containers are not started again.

    `disruption` has the reason and the message for which something is about to end it, if there is such a thing.
    """

    pod: Document
    containers: Sequence[ContainerRecord]
    scheduled: datetime
    address: str = ""
    stopped: bool = False
    disruption: Document = field(default_factory=dict)
    _since: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def policy(self) -> str:
        """The restart policy of the pod."""
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def inits(self) -> list[ContainerRecord]:
        """The init containers."""
        return [found for found in self.containers if found.init]

    @property
    def mains(self) -> list[ContainerRecord]:
        """The containers that are no init containers."""
        return [found for found in self.containers if not found.init]

    def phase(self) -> str:
        """Return the phase of the pod: it is not over while a sidecar runs, by `getPhase` of the kubelet."""
        codes = [found.exit_code for found in self.mains]
        broken = any(found.exit_code for found in self.inits if not found.sidecar)
        if broken and (self.stopped or self.policy == "Never"):
            return "Failed"
        runs = any(found.runs for found in self.containers)
        if not any(found.tries for found in self.mains):
            return "Failed" if self.stopped and not runs else "Pending"
        if runs or any(code is None for code in codes) or (self.policy == "Always" and not self.stopped):
            return "Failed" if self.stopped and not runs else "Running"
        if not any(codes):
            return "Succeeded"
        return "Failed" if self.stopped or self.policy == "Never" else "Running"

    def status(self, now: datetime) -> dict[str, Any]:
        """Return the status of the pod."""
        phase = self.phase()
        over = phase in ("Succeeded", "Failed")
        ready = phase == "Running" and all(found.runs for found in self.mains)
        initialized = all(found.exit_code == 0 or (found.sidecar and found.started) for found in self.inits)
        conditions = (
            ("PodScheduled", True),
            ("PodReadyToStartContainers", bool(self.address) and not over),
            ("Initialized", initialized),
            ("ContainersReady", ready),
            ("Ready", ready),
        )
        disrupted = [{**self._condition("DisruptionTarget", now, met=True, over=False), **self.disruption}]
        addresses = {"podIP": self.address, "podIPs": [{"ip": self.address}]} if self.address else {}
        return {
            "phase": phase,
            "conditions": [self._condition(kind, now, met=met, over=phase == "Succeeded") for kind, met in conditions]
            + (disrupted if self.disruption else []),
            "startTime": timestamp(self.scheduled),
            **addresses,
            **_statuses("containerStatuses", self.mains),
            **_statuses("initContainerStatuses", self.inits),
        }

    def _condition(self, kind: str, now: datetime, *, met: bool, over: bool) -> Document:
        value = str(met)
        known = self._since.get(kind)
        if known is None or known[0] != value:
            known = self._since[kind] = (value, timestamp(now))
        reason = {"reason": "PodCompleted"} if over and not met and kind != "PodReadyToStartContainers" else {}
        return {"type": kind, "status": value, "lastTransitionTime": known[1]} | reason


def _statuses(key: str, found: Iterable[ContainerRecord]) -> Document:
    statuses = [record.status() for record in found]
    return {key: statuses} if statuses else {}

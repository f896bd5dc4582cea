"""The few facts about pods, services and their owners that a decision may need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Phase(StrEnum):
    """A pod's phase, as Kubernetes names it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Container:
    """How one container of a pod is doing; `exit_code` is None until it has ended."""

    name: str
    init: bool = False
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a job; `job` and `role` are its labels, the latter in lower case.

    `disruption` and `reason` are empty if Kubernetes gave none; `unplaced` is the reason why it has no node,
    `unschedulable` that reason's message.
    """

    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    role: str
    index: int
    attempt: int
    phase: Phase
    deleting: bool = False
    ready: bool = False
    node: str = ""
    reason: str = ""
    message: str = ""
    disruption: str = ""
    unplaced: str = ""
    unschedulable: str = ""
    containers: tuple[Container, ...] = ()

    @property
    def over(self) -> bool:
        """Whether its containers have all ended for good."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def restarts(self) -> int:
        """How often the kubelet has restarted its containers in place, in sum."""
        return sum(container.restarts for container in self.containers)


@dataclass(frozen=True, slots=True)
class Service:
    """A Service of a job; `job`, `role` and `index` are its labels: those of the pod whose name it carries."""

    name: str
    uid: str
    version: str
    owner: str
    namespace: str
    job: str
    role: str
    index: int
    deleting: bool = False

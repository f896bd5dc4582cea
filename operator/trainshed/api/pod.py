"""The few facts about pods, services and their owners that a decision may need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: The finalizer of ours that keeps a pod until its end is noted in its job's status.
RESULT = "trainshed.dev/result"


class Phase(StrEnum):
    """A pod's phase, as Kubernetes names it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a container that is over. What never began was started in 1970, some runtimes say."""

    exit_code: int
    started: datetime | None = None
    finished: datetime | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """How one container of a pod is doing; `exit_code` is None until it has ended.

    A `sidecar` is an init container that runs along with the others and is started again whenever it ends. `before` is
    its run before this one, if there was one.
    """

    name: str
    init: bool = False
    sidecar: bool = False
    image: str = ""
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    waiting: bool = False
    before: Run | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a job; `job` and `role` are its labels, the latter in lower case.

    `disruption` and `reason` are empty if Kubernetes gave none, `disrupted` is since when the former is there;
    `unplaced` is the reason why it has no node, `unschedulable` that reason's message. `leaves` is when a pod that is
    being deleted has to be gone, its `grace` (in seconds) included; `finalizers` are what others have to do before, and
    `held` says that so have we.
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
    disrupted: datetime | None = None
    unplaced: str = ""
    unschedulable: str = ""
    containers: tuple[Container, ...] = ()
    created: datetime | None = None
    leaves: datetime | None = None
    grace: int = 0
    finalizers: tuple[str, ...] = ()
    held: bool = False

    @property
    def over(self) -> bool:
        """Whether its containers have all ended for good."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def restarts(self) -> int:
        """How often the kubelet has restarted its containers in place, in sum; sidecars do as they like."""
        return sum(container.restarts for container in self.containers if not container.sidecar)

    @property
    def dismissed(self) -> datetime | None:
        """When somebody asked for its deletion, or None if nobody has, or it cannot be told.

        Whoever evicts says so by a condition first, whose time stays when the kubelet's last word takes the grace away.
        """
        if self.leaves is None:
            return None
        told = self.leaves - timedelta(seconds=self.grace)
        return min(told, self.disrupted) if self.disrupted else told


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

"""A training job as the rest of the house sees it: parsed, its defaults filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

#: A piece of the pod template or another object, kept just as the user wrote it.
Document = Mapping[str, Any]
#: The options that one kind of job has besides those of all kinds; each kind defines its own class.
Options = TypeVar("Options")


class RestartPolicy(StrEnum):
    """What to do about a replica that failed; the values are those of the `kubeflow.org/v1` API."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"

    @property
    def in_place(self) -> bool:
        """Whether the kubelet restarts a failed container by itself, in the same pod."""
        return self in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE)


class CleanPodPolicy(StrEnum):
    """Which pods go once the job is over."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class Scope(StrEnum):
    """How far a restart reaches: the replica that failed, its whole role, or the whole job."""

    REPLICA = "Replica"
    ROLE = "Role"
    JOB = "Job"


#: Roles that have one member, which bears no number.
ALONE = ("Launcher",)


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One seat in a job: the replica of `role` (canonical case) at `index`, counted from 0."""

    role: str
    index: int

    def __str__(self) -> str:
        return self.role.lower() if self.role in ALONE else f"{self.role.lower()}-{self.index}"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the framework's container, as its Service publishes it."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Replicas:
    """One role: how many, from which template, and what happens when one fails."""

    role: str
    count: int
    restart_policy: RestartPolicy
    template: Document
    ports: tuple[Port, ...]
    port: int


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What `runPolicy.schedulingPolicy` tells a gang scheduler; None or "" leaves it open, `timeout` is in seconds."""

    min_available: int | None = None
    queue: str = ""
    min_resources: Document | None = None
    priority_class: str = ""
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """`spec.runPolicy`; durations are seconds, and None means that there is no such limit."""

    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    ttl: int | None = None
    deadline: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    managed_elsewhere: bool = False
    scheduling: Scheduling = Scheduling()


@dataclass(frozen=True, slots=True)
class Job:
    """One job; `version` moves with every change of the object, `generation` with changes of its spec only.

    `problems` are sentences about what the spec asks for and cannot have; a sound job has none. `annotations` are the
    user's own, as pairs. `force_delete_after` and `startup_deadline` are seconds. With
    `keep_results` the pods of those who decide stay until their results are noted.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    deleting: bool
    replicas: tuple[Replicas, ...]
    policy: RunPolicy
    options: object = None
    scope: Scope | None = None
    fail_on_disruption: bool = False
    force_delete_after: int | None = None
    startup_deadline: int | None = None
    keep_results: bool = False
    problems: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    api_version: str = "kubeflow.org/v1"
    created: datetime | None = None

    def of(self, role: str) -> Replicas | None:
        """The replicas of `role`, or None if the job has no such role."""
        return next((group for group in self.replicas if group.role == role), None)

    def port(self, role: str, otherwise: int) -> int:
        """The port at which members of `role` are found, or `otherwise` if the job has no such role."""
        group = self.of(role)
        return group.port if group else otherwise

    def options_as(self, kind: type[Options]) -> Options:
        """Return the options of the job's kind, or their defaults if its spec could not be read."""
        return self.options if isinstance(self.options, kind) else kind()

    @property
    def members(self) -> Iterator[Member]:
        """Every seat of the job, roles in the order they were declared; one by one, because there may be 100,000."""
        return (Member(group.role, index) for group in self.replicas for index in range(group.count))

    @property
    def size(self) -> int:
        """How many pods the job asks for, in sum."""
        return sum(group.count for group in self.replicas)

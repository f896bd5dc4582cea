"""What a framework says of itself; the rest of the house treats all frameworks alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from .job import Document, Job, Member, RestartPolicy, Scope
from .site import Site


class Enough(StrEnum):
    """How many of the deciding replicas must succeed for the job to have succeeded."""

    ALL = "all"
    FIRST = "first"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Goal:
    """Whose success is the job's, and whose running is its running.

    `qualified` says whether v1 names the job with its namespace when it speaks of it.
    """

    role: str
    enough: Enough
    qualified: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable: a literal value, or a `source` as in a container's `valueFrom`.

    One that `yields` is left out where the user has set it; any other stands last and so wins.
    """

    name: str
    value: str = ""
    source: Document | None = None
    yields: bool = False


@dataclass(frozen=True, slots=True)
class Shared:
    """Data that all pods of a job read from one ConfigMap, which never changes: its name carries a digest of it."""

    name: str
    data: Document


#: The variables of one member; made once for a job, asked once for a pod.
Environment = Callable[[Member], tuple[Variable, ...]]


@dataclass(frozen=True, slots=True)
class Framework:
    """One kind of training job; the functions are pure.

    `roles` stand in the order in which they are made; `any_case` says that users may write them in any case.
    `everywhere` gives the environment to every container rather than the framework's own. `selectors` puts selectors
    into the status. `farewell` is the reason of the event when a job is deleted at its time, `epitaph` the message when
    replicas fail it.
    """

    kind: str
    plural: str
    label: str
    field: str
    roles: tuple[str, ...]
    container: str
    port_name: str
    port: int
    restart_policy: RestartPolicy
    goal: Callable[[Job], Goal | None]
    leads: Callable[[Job, Member], bool]
    scope: Callable[[Job], Scope]
    environment: Callable[[Job, Site], Environment]
    shared: Callable[[Job, Site], Shared | None]
    waits: Callable[[Job, Member, Site], tuple[Document, ...]]
    refuses: Callable[[Job, Site], tuple[str, ...]]
    expendable: Callable[[Job], tuple[str, ...]]
    any_case: bool = False
    everywhere: bool = True
    selectors: bool = False
    farewell: str = "SuccessfulDeleteJob"
    epitaph: str = "{kind} {name} is failed because {count} {role} replica(s) failed."

    @property
    def operator_name(self) -> str:
        """The value of the label `training.kubeflow.org/operator-name`, and the component that its events come from."""
        return f"{self.kind.lower()}-controller"

"""What a framework says of itself; the rest of the house treats all frameworks alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .dependent import Resource, Wish
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

    `qualified` says whether v1 names the job with its namespace when it speaks of it. A success counts only if all of
    the role that `serves` have lived to see it. With `whole` the job runs only while all of those run as well.
    """

    role: str
    enough: Enough
    qualified: bool
    serves: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable: a literal value, or a `source` as in a container's `valueFrom`.

    One that `yields` is left out where the user has set it; any other stands last and so wins.
    """

    name: str
    value: str = ""
    source: Document | None = None
    yields: bool = False


def literals(*, yields: bool = False, **values: str) -> tuple[Variable, ...]:
    """Variables of these names and values, in this order; with `yields` they stand back behind the user's own."""
    return tuple(Variable(name, value, yields=yields) for name, value in values.items())


#: The variables of one member; made once for a job, asked once for a pod.
Environment = Callable[[Member], tuple[Variable, ...]]
#: Adds to the spec of a member's pod what no environment variable can do.
Dresser = Callable[[Member, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Framework:
    """One kind of training job: what it is called, how its members are made, and whose end is the job's.

    All functions are pure.
    """

    # What it is called: `label` in metrics, `field` holds the roles, which stand in the order in which they are made.
    kind: str
    plural: str
    label: str
    field: str
    roles: tuple[str, ...]
    #: The framework's own container, and the port that it is given; 0 if nobody listens.
    container: str
    port_name: str
    port: int
    #: What is done about a replica that failed, unless the user says otherwise.
    restart_policy: RestartPolicy
    #: Whose success is the job's, who leads, how far a restart reaches, and what the members are told.
    goal: Callable[[Job], Goal | None]
    leads: Callable[[Job, Member], bool]
    scope: Callable[[Job], Scope]
    environment: Callable[[Job, Site], Environment]

    # What else a few kinds need.

    #: Init containers that a member waits in, and problems of a job that asks for what cannot be.
    waits: Callable[[Job, Member, Site], tuple[Document, ...]] = lambda _job, _member, _site: ()
    refuses: Callable[[Job, Site], tuple[str, ...]] = lambda _job, _site: ()
    #: Roles whose members may fail for good without failing the job.
    expendable: Callable[[Job], tuple[str, ...]] = lambda _job: ()
    #: Whether roles may be written in any case, all containers get the environment, the framework's own is known by its
    #: name (or is the first), `kubectl get` prints the age first, and members find each other by a Service each.
    any_case: bool = False
    everywhere: bool = True
    by_name: bool = True
    age_first: bool = False
    services: bool = True
    #: Of these roles there are none, and these the kubelet restarts, unless the user says otherwise.
    none_by_default: tuple[str, ...] = ()
    on_failure_by_default: tuple[str, ...] = ()
    #: What a job owns beside pods and Services: the kinds, and the objects, given the names of the running pods.
    owns: tuple[Resource, ...] = ()
    dependents: Callable[[Job, Site, tuple[str, ...]], tuple[Wish, ...]] = lambda _job, _site, _running: ()
    #: The role whose members have to be ready before this one is made.
    gate: Callable[[Job, Member], str] = lambda _job, _member: ""
    #: Adds to a member's pod what no environment variable can do.
    dress: Callable[[Job, Site], Dresser] = lambda _job, _site: lambda _member, _spec: None
    #: Whether the status holds selectors, for the scale subresource.
    selectors: bool = False
    #: The version of the API that its jobs are written in.
    version: str = "v1"
    #: Whether the job has one Service of its own name, in which members are found by their pods' names.
    domain: bool = False
    #: The name of the Secret with its ssh keys.
    keys: Callable[[Job], str] = lambda _job: ""
    #: Labels of a member's pod besides v1's.
    marks: Callable[[Job, Member], tuple[tuple[str, str], ...]] = lambda _job, _member: ()
    #: Roles that end with the job and stay to be read: of their pods only those that still run are deleted.
    kept: tuple[str, ...] = ()
    #: How often the kubelet may restart, if nothing is said of it.
    backoff_limit: int | None = None
    #: A failure that comes within so many seconds of another's is taken for its consequence.
    follows_within: int = 15
    #: What `managedBy` calls us, and what a label does.
    manager: str = "kubeflow.org/training-operator"
    operator: str = ""
    #: The reason of the event when a job is deleted at its time, and the message when replicas fail it.
    farewell: str = "SuccessfulDeleteJob"
    epitaph: str = "{kind} {name} is failed because {count} {role} replica(s) failed."

    @property
    def operator_name(self) -> str:
        """The value of the label `training.kubeflow.org/operator-name`."""
        return self.operator or f"{self.kind.lower()}-controller"

    @property
    def api_version(self) -> str:
        """As in `apiVersion`."""
        return f"kubeflow.org/{self.version}"

    @property
    def prefix(self) -> str:
        """Where the API server has its jobs."""
        return f"/apis/{self.api_version}"

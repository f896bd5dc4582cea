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
    """One kind of training job; the functions are pure.

    `roles` stand in the order in which they are made; `any_case` says that users may write them in any case.
    `everywhere` gives the environment to every container rather than the framework's own, which is known `by_name` or
    else is the first. `age_first` is about the columns of `kubectl get`. `services` says that members
    find each other by name, `port` 0 that nobody listens. Of roles that are `none_by_default` there are none unless the
    user says how many. `owns` are the kinds of its `dependents`, which are told the names of the running pods. `gate`
    is the role whose members have to be ready before this one is made. `selectors` puts selectors into the status.
    `farewell` is the reason of the event when a job is deleted at its time, `epitaph` the message when replicas fail
    it.

    With a `domain` the job has one Service, of its own name, in which its members are found by their pods' names.
    `keys` names the Secret with its ssh keys. `marks` are labels of a member's pod besides v1's. Roles that are `kept`
    end with the job and stay to be read: of their pods only those that still run are deleted. `on_failure_by_default`
    are the roles that the kubelet restarts unless the user says otherwise, `backoff_limit` how often if nothing is said
    of it. `manager` is what `managedBy` calls us, `operator` what a label does.
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
    waits: Callable[[Job, Member, Site], tuple[Document, ...]] = lambda _job, _member, _site: ()
    refuses: Callable[[Job, Site], tuple[str, ...]] = lambda _job, _site: ()
    expendable: Callable[[Job], tuple[str, ...]] = lambda _job: ()
    any_case: bool = False
    everywhere: bool = True
    by_name: bool = True
    age_first: bool = False
    services: bool = True
    none_by_default: tuple[str, ...] = ()
    owns: tuple[Resource, ...] = ()
    dependents: Callable[[Job, Site, tuple[str, ...]], tuple[Wish, ...]] = lambda _job, _site, _running: ()
    gate: Callable[[Job, Member], str] = lambda _job, _member: ""
    dress: Callable[[Job, Site], Dresser] = lambda _job, _site: lambda _member, _spec: None
    selectors: bool = False
    version: str = "v1"
    domain: bool = False
    keys: Callable[[Job], str] = lambda _job: ""
    marks: Callable[[Job, Member], tuple[tuple[str, str], ...]] = lambda _job, _member: ()
    kept: tuple[str, ...] = ()
    on_failure_by_default: tuple[str, ...] = ()
    backoff_limit: int | None = None
    manager: str = "kubeflow.org/training-operator"
    operator: str = ""
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

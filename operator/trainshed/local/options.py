"""What a local run is asked for: jobs, objects, and how to run them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from trainshed.api.framework import Framework, JobDefaults, child_name
from trainshed.api.job import Document, Job
from trainshed.local.runtimes.docker_cli import ENGINES
from trainshed.memory.server import Server
from trainshed.plan.messages.replica_failures import PROBES

from . import pod_validation
from .direction import Director
from .failure_injection import InjectedFailure
from .kept_log import KeptLog
from .output import is_named, printable

if TYPE_CHECKING:
    from trainshed.views.rank_stacks import Result


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as others show it: its server and folder, and the log of a container by the names of pod and container.

    `stacks` reads those of the replicas of a job by its name, and `say` prints a line.
    """

    server: Server
    folder: Path
    log: Callable[[str, str], KeptLog | None]
    stacks: Callable[[str], Awaitable[dict[str, Result]]]
    say: Callable[[str], None]


#: Something that is shown as long as the context lasts; it gives what waits until the user has seen enough.
Shown = AbstractAsyncContextManager[Callable[[], Awaitable[None]]]
RUNTIMES = ("auto", "namespaces", "processes", *ENGINES)


#: The most replicas of a run: each is some processes and descriptors, and 2,000 take minutes to start.
MOST = 2_000
#: The parts of a run policy that would keep a job from running here, or remove it at the end.
WITHOUT = ("suspend", "managedBy", "ttlSecondsAfterFinished")


class Refused(Exception):
    """The jobs cannot be run on this machine, or no longer; the message has a line for each reason."""


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A valid job, the framework of its kind, its pods when all of them run, and what else the operator creates."""

    document: Document
    job: Job
    framework: Framework
    pods: tuple[Document, ...]
    dependents: tuple[Document, ...] = ()

    @property
    def pod_names(self) -> list[str]:
        """The names of all pods."""
        return [child_name(self.job, replica) for replica in self.job.all_replicas]

    @property
    def runnable(self) -> Document:
        """The document without what would keep the job from running here: suspend, managedBy and the TTL.

        Nor has it probes for which a kubelet kills a container: no run has them, but a message would suspect them.
        """
        spec, field = self.document["spec"], self.framework.field
        policy = {key: value for key, value in (spec.get("runPolicy") or {}).items() if key not in WITHOUT}
        groups = {
            role: {**group, "template": _without_probes(group["template"])} for role, group in spec[field].items()
        }
        return {**self.document, "spec": {**spec, "runPolicy": policy, field: groups}}


def _without_probes(template: Document) -> Document:
    spec = {**template["spec"]}
    for part in ("containers", "initContainers"):
        if found := spec.get(part):
            spec[part] = [{key: one[key] for key in one if key not in PROBES} for one in found]
    return {**template, "spec": spec}


@dataclass(frozen=True, slots=True)
class Options:
    """What the user has asked for; `failures` are those on purpose, `state` is where the folder of all runs is.

    `page` shows the jobs of a run, and says where. A `director` does something to the run, and ends it. Everything is
    printed on `stream`, without one on standard output.
    """

    jobs: tuple[LocalJob, ...]
    objects: tuple[Document, ...]
    state: Path
    runtime: str = "auto"
    python: str = ""
    only: tuple[str, ...] = ()
    colour: bool = True
    json: bool = False
    failures: tuple[InjectedFailure, ...] = ()
    job_defaults: JobDefaults = field(default_factory=JobDefaults)
    page: Callable[[ShownRun], Shown] | None = None
    director: Director | None = None
    stream: TextIO | None = None

    def check(self) -> None:
        """Raise `Refused` if the user names replicas that do not exist, or for objects that cannot run together.

        An API server would refuse one of them, or two jobs have pods of the same name.
        """
        pods = [(item.job.name, str(pod["metadata"]["name"])) for item in self.jobs for pod in item.pods]
        named = [("--only", name) for name in self.only]
        named += [("--fail", failure.replica) for failure in self.failures]
        known = ", ".join(pod.removeprefix(f"{job}-") if len(self.jobs) == 1 else pod for job, pod in pods)
        problems = [
            f"{flag} {name}: there is no such replica; there are {known}"
            for flag, name in named
            if not any(is_named(name, job, pod) for job, pod in pods)
        ]
        problems += _clashes(self.jobs)
        objects = (*self.objects, *(item.document for item in self.jobs))
        problems += pod_validation.problems(objects, chain.from_iterable(item.pods for item in self.jobs))
        if problems:
            raise Refused("\n".join(map(printable, problems)))

    def labels(self) -> Iterator[str]:
        """Yield the prefixes of lines."""
        several = len(self.jobs) > 1
        yield "job"
        for item in self.jobs:
            yield item.job.name if several else ""
            for pod in item.pods:
                name = pod["metadata"]["name"].removeprefix("" if several else f"{item.job.name}-")
                yield from (name, *(f"{name}/{container['name']}" for container in pod["spec"]["containers"][1:]))


def check_size(jobs: Iterable[Job]) -> None:
    """Raise `Refused` if jobs have more replicas than a run may have."""
    if (count := sum(job.size for job in jobs)) > MOST:
        raise Refused(f"there are {count} replicas; a run on one machine has at most {MOST}")


def _clashes(jobs: Iterable[LocalJob]) -> Iterator[str]:
    """Yield the jobs with pods that another one has too; logs, ports and names of hosts would be those of both.

    Namespaces do not help: replicas of a run share a machine, and mostly name each other without their namespace.
    """
    owners: dict[str, str] = {}
    for item in jobs:
        own = f"{item.job.kind} {item.job.namespace}/{item.job.name}"
        pods = [str(pod["metadata"]["name"]) for pod in item.pods]
        if taken := next((pod for pod in pods if pod in owners), ""):
            yield f"{own}: {owners[taken]} has a pod {taken} too; rename one of the jobs, or run them one after another"
        owners |= {pod: own for pod in pods if pod not in owners}

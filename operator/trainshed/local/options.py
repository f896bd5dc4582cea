"""What a local run is asked for: jobs, objects, and how to run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import Document, Job

from .docker_cli import ENGINES
from .failures import Failure
from .output import is_named

RUNTIMES = ("auto", "namespaces", "processes", *ENGINES)


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


@dataclass(frozen=True, slots=True)
class Options:
    """What the user has asked for; `failures` are those on purpose."""

    jobs: tuple[LocalJob, ...]
    objects: tuple[Document, ...]
    state: Path
    runtime: str = "auto"
    python: str = ""
    only: tuple[str, ...] = ()
    colour: bool = True
    json: bool = False
    failures: tuple[Failure, ...] = ()
    job_defaults: JobDefaults = field(default_factory=JobDefaults)

    def check(self) -> None:
        """Raise `Refused` if the user names replicas that do not exist."""
        pods = [(item.job.name, str(pod["metadata"]["name"])) for item in self.jobs for pod in item.pods]
        named = [("--only", name) for name in self.only]
        named += [("--fail", failure.replica) for failure in self.failures]
        known = ", ".join(pod.removeprefix(f"{job}-") if len(self.jobs) == 1 else pod for job, pod in pods)
        problems = [
            f"{flag} {name}: there is no such replica; there are {known}"
            for flag, name in named
            if not any(is_named(name, job, pod) for job, pod in pods)
        ]
        if problems:
            raise Refused("\n".join(problems))

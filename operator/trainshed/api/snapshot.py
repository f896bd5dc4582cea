"""The input of the planner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .dependent import Dependent
from .framework import Framework
from .job import Job
from .pod import Pod, Service
from .site import Site
from .status import Status


@dataclass(frozen=True, slots=True)
class Trouble:
    """The API server's last refusal: a reason in CamelCase and its message.

    `hidden` are pods of the job that exist but that no watch reports, because they lack the label that it selects.
    """

    reason: str
    message: str
    hidden: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job, its stored status, and the objects whose controller's uid is the job's."""

    job: Job
    framework: Framework
    site: Site
    status: Status
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]
    now: datetime
    trouble: Trouble | None = None
    dependents: tuple[Dependent, ...] = ()

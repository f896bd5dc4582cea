"""Everything one decision may look at."""

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
    """Why the API server would not have what was last asked of it: a reason in CamelCase and its own words.

    `hidden` are pods of the job's that are there, and of which no watch tells.
    """

    reason: str
    message: str
    hidden: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job, its status as last stored, and the objects that are its own by the uid of their owner."""

    job: Job
    framework: Framework
    site: Site
    status: Status
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]
    now: datetime
    trouble: Trouble | None = None
    dependents: tuple[Dependent, ...] = ()

"""A look at a whole cluster: how it is, what the operator would be started with, and what is to come of each job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import click

from trainshed.api import gang, read
from trainshed.api.dependent import SERVICE_ACCOUNTS, Dependent
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.pod import Pod, Service
from trainshed.api.snapshot import Snapshot
from trainshed.cluster.census import Census
from trainshed.cluster.gateway import CORE
from trainshed.cluster.lists import DOCUMENTS, PODS, SERVICES, dependents
from trainshed.cluster.objects import JOB_NAME
from trainshed.cluster.wire import Path
from trainshed.frameworks import served
from trainshed.settings import Settings

from .foresight import Grade, Outlook, foresee
from .operate import PASSED_OVER, operator
from .premises import Finding, Premises, State, command_line, findings


class Owned(Protocol):
    """What belongs to a job."""

    @property
    def owner(self) -> str:
        """The job's uid."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Owned)


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found out."""

    findings: tuple[Finding, ...]
    settings: Settings
    outlooks: tuple[Outlook, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong and no job wants a look."""
        wrong = any(finding.state is State.WRONG for finding in self.findings)
        return not wrong and all(outlook.grade is not Grade.LOOK for outlook in self.outlooks)


async def survey(census: Census, namespace: str, flags: tuple[str, ...], now: datetime) -> Report:
    """Read everything, and write nothing; raises `trainshed.cluster.ClusterError` and `click.ClickException`."""
    premises = Premises(
        deployments=tuple(await census.deployments()),
        webhooks=tuple(await census.webhooks()),
        definitions=tuple(await census.definitions()),
    )
    settings = settle(premises, flags)
    namespaces = (namespace,) if namespace else settings.namespaces or ("",)
    snapshots = [found for name in namespaces for found in await _snapshots(census, settings, name, now)]
    outlooks = sorted(map(foresee, snapshots), key=lambda outlook: outlook.grade)
    return Report(tuple(findings(premises, served(settings.mpi_version))), settings, tuple(outlooks))


def settle(premises: Premises, flags: tuple[str, ...]) -> Settings:
    """What the operator would be started with: the flags given here, or else those of v1's Deployment."""
    words = flags or next((command_line(item) for item in premises.theirs), ())
    try:
        with operator.make_context("operator", list(words)) as context:
            return Settings(**context.params, passed_over=tuple(context.meta.get(PASSED_OVER, ())))
    except click.UsageError as error:
        whose = "the flags after --" if flags else "the flags of v1's Deployment"
        raise click.ClickException(f"{whose} would not do: {error.format_message()}") from error


class Children:
    """What there is of pods, Services and other objects, by the uid of the job that owns them."""

    def __init__(self, pods: Iterable[Pod], services: Iterable[Service], others: Iterable[Dependent]) -> None:
        self._pods, self._services, self._others = _by_owner(pods), _by_owner(services), _by_owner(others)

    def snapshot(self, document: Document, framework: Framework, settings: Settings, now: datetime) -> Snapshot:
        """Everything that a look at this job would see."""
        job = read.job(document, framework, settings.site)
        return Snapshot(
            job=job,
            framework=framework,
            site=settings.site,
            status=read.status(document),
            pods=self._pods[job.uid],
            services=self._services[job.uid],
            now=now,
            dependents=self._others[job.uid],
        )


def _by_owner(items: Iterable[T]) -> defaultdict[str, tuple[T, ...]]:
    found: defaultdict[str, tuple[T, ...]] = defaultdict(tuple)
    groups: defaultdict[str, list[T]] = defaultdict(list)
    for item in items:
        groups[item.owner].append(item)
    found.update((owner, tuple(sorted(group, key=lambda item: item.name))) for owner, group in groups.items())
    return found


async def _snapshots(census: Census, settings: Settings, namespace: str, now: datetime) -> list[Snapshot]:
    known = served(settings.mpi_version, settings.kinds)
    documents = [
        (document, framework)
        for framework in known
        for document in await census.all(Path(framework.prefix, framework.plural, namespace), DOCUMENTS)
    ]
    # What jobs own is read after the jobs: what is made in between is seen, and nothing seems to be missing.
    children = Children(
        await census.all(Path(CORE, "pods", namespace), PODS, JOB_NAME),
        await census.all(Path(CORE, "services", namespace), SERVICES, JOB_NAME),
        [
            item
            for kind in gang.owned(known, settings.gang_scheduler)
            for item in await census.all(Path(kind.prefix, kind.plural, namespace), dependents(kind))
            # An account of v1's is used as it is; other objects of v1's, which bear no label of a job, become ours.
            if item.job or kind != SERVICE_ACCOUNTS
        ],
    )
    return [children.snapshot(document, framework, settings, now) for document, framework in documents]

"""Reads a cluster for `trainshed migrate`: its state, the settings of the operator to be started, and every job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import click

from trainshed.api import framework, parse, status_codec
from trainshed.api.actions import Snapshot
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL, SERVICE_ACCOUNTS, Dependent, Pod, Service
from trainshed.client.client import CORE, Lister
from trainshed.client.lists import DOCUMENTS, PODS, SERVICES, dependent_decoder
from trainshed.client.transport import Path
from trainshed.config import Config
from trainshed.frameworks import served

from .foresight import Grade, Outlook, foresee
from .operate import PASSED_OVER, operator
from .premises import Finding, Premises, State, command_line, findings


class Owned(Protocol):
    """An object that belongs to a job."""

    @property
    def owner(self) -> str:
        """The uid of the job."""

    @property
    def name(self) -> str:
        """The name of the object."""


T = TypeVar("T", bound=Owned)


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the cluster, the operator's settings, and the forecasts for the jobs."""

    findings: tuple[Finding, ...]
    settings: Config
    outlooks: tuple[Outlook, ...]

    @property
    def sound(self) -> bool:
        """True if the cluster is in no error state and no job needs attention."""
        failed = any(finding.state is State.ERROR for finding in self.findings)
        return not failed and all(outlook.grade is not Grade.NEEDS_ATTENTION for outlook in self.outlooks)


async def survey(census: Lister, namespace: str, flags: tuple[str, ...], now: datetime) -> Report:
    """Read the cluster, without writing to it.

    Raises:
        trainshed.client.ApiError: The API server cannot be read.
        click.ClickException: The flags are invalid.
    """
    premises = Premises(
        deployments=tuple(await census.deployments()),
        webhooks=tuple(await census.webhooks()),
        definitions=tuple(await census.definitions()),
    )
    settings = settle(premises, flags)
    namespaces = (namespace,) if namespace else settings.namespaces or ("",)
    snapshots = [snapshot for name in namespaces for snapshot in await _snapshots(census, settings, name, now)]
    outlooks = sorted(map(foresee, snapshots), key=lambda outlook: outlook.grade)
    return Report(tuple(findings(premises, served(settings.mpi_version))), settings, tuple(outlooks))


def settle(premises: Premises, flags: tuple[str, ...]) -> Config:
    """Return the settings of the operator to be started, from `flags` if there are any, else from v1's Deployment.

    Raises:
        click.ClickException: The flags are invalid.
    """
    arguments = flags or next((command_line(item) for item in premises.theirs), ())
    try:
        with operator.make_context("operator", list(arguments)) as context:
            return Config(**context.params, passed_over=tuple(context.meta.get(PASSED_OVER, ())))
    except click.UsageError as error:
        source = "the flags after --" if flags else "the flags of v1's Deployment"
        raise click.ClickException(f"{source} are invalid: {error.format_message()}") from error


class Children:
    """The pods, Services and other objects of jobs, by the uid of the job that owns them."""

    def __init__(self, pods: Iterable[Pod], services: Iterable[Service], others: Iterable[Dependent]) -> None:
        self._pods, self._services, self._others = _by_owner(pods), _by_owner(services), _by_owner(others)

    def snapshot(self, document: Document, framework: Framework, settings: Config, now: datetime) -> Snapshot:
        """Return what a reconcile of this job would observe."""
        job = parse.job(document, framework, settings.site)
        return Snapshot(
            job=job,
            framework=framework,
            site=settings.site,
            status=status_codec.parse_status(document),
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


async def _snapshots(census: Lister, settings: Config, namespace: str, now: datetime) -> list[Snapshot]:
    known = served(settings.mpi_version, settings.kinds)
    documents = [
        (document, framework)
        for framework in known
        for document in await census.all(Path(framework.prefix, framework.plural, namespace), DOCUMENTS)
    ]
    # The children are listed after the jobs: objects created in between are then not reported as missing.
    children = Children(
        await census.all(Path(CORE, "pods", namespace), PODS, JOB_NAME_LABEL),
        await census.all(Path(CORE, "services", namespace), SERVICES, JOB_NAME_LABEL),
        [
            item
            for kind in framework.owned_gang_resources(known, settings.gang_scheduler)
            for item in await census.all(Path(kind.prefix, kind.plural, namespace), dependent_decoder(kind))
            # v1 puts no job label on these objects: the operator labels them, but uses v1's ServiceAccounts unchanged.
            if item.job or kind != SERVICE_ACCOUNTS
        ],
    )
    return [children.snapshot(document, framework, settings, now) for document, framework in documents]

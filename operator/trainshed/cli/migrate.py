"""`trainshed migrate`: what would change if Trainshed took over from training-operator v1."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import click
from rich.console import Console
from rich.text import Text

from trainshed.api import foreign_text, framework, gang, parse, status_codec
from trainshed.api.actions import Snapshot
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL, SERVICE_ACCOUNTS, Dependent, Pod, Service
from trainshed.client import ApiError
from trainshed.client.client import CORE, Lister
from trainshed.client.credentials import Credentials, NoCredentials
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.lists import JOBS, PODS, SERVICES, dependent_decoder
from trainshed.client.transport import Path, RestClient
from trainshed.config import Config
from trainshed.controller.store import ChildObject, Owner, owner_of, with_spec
from trainshed.frameworks import served

from .operator_flags import config_of
from .operators import ClusterState, command_line, where
from .preflight import Check, JobForecast, Severity, State, dry_run, listed, run_checks

ChildT = TypeVar("ChildT", bound=ChildObject)


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the cluster, the operator's settings, and the forecasts for the jobs of all or some namespaces."""

    checks: tuple[Check, ...]
    settings: Config
    forecasts: tuple[JobForecast, ...]
    namespaces: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the cluster is in no error state and no job needs attention."""
        failed = any(check.state is State.ERROR for check in self.checks)
        return not failed and all(forecast.severity is not Severity.NEEDS_ATTENTION for forecast in self.forecasts)


async def inspect_cluster(lister: Lister, namespace: str, flags: tuple[str, ...], now: datetime) -> Report:
    """Read the cluster, without writing to it.

    Raises:
        trainshed.client.ApiError: The API server cannot be read.
        click.ClickException: The flags are invalid.
    """
    others = (tuple(await lister.webhooks()), tuple(await lister.definitions()), tuple(await lister.bindings()))
    deployments = await lister.deployments(ClusterState((), *others).kept())
    cluster_state = ClusterState(tuple(deployments), *others)
    settings = effective_config(cluster_state, flags)
    namespaces = (namespace,) if namespace else settings.namespaces
    found = [
        dry_run(snapshot) for name in namespaces or ("",) for snapshot in await _snapshots(lister, settings, name, now)
    ]
    forecasts = sorted(found, key=lambda forecast: forecast.severity)
    return Report(
        tuple(run_checks(cluster_state, served(settings.mpi_version))), settings, tuple(forecasts), namespaces
    )


def effective_config(cluster_state: ClusterState, flags: tuple[str, ...]) -> Config:
    """Return the settings of the operator to be started, from `flags` if there are any, else from v1's Deployment.

    Raises:
        click.ClickException: The flags are invalid, or several Deployments of v1 have different ones.
    """
    deployments = cluster_state.v1_deployments
    found = {command_line(item) for item in deployments}
    if not flags and len(found) > 1:
        names = ", ".join(map(where, deployments))
        raise click.ClickException(
            f"Deployments {names} of v1 have different flags: give the operator's flags after --"
        )
    try:
        return config_of(flags, own=True) if flags else config_of(next(iter(found), ()), own=False)
    except click.UsageError as error:
        source = "the flags after --" if flags else f"the flags of v1's Deployment {where(deployments[0])}"
        text = f"{source} are invalid: {error.format_message()}"
        raise click.ClickException(foreign_text.one_line(text)) from error


class ChildrenByOwner:
    """The pods, Services and other objects of jobs, by the namespace and the uid of the job that owns them."""

    def __init__(self, pods: Iterable[Pod], services: Iterable[Service], others: Iterable[Dependent]) -> None:
        self._pods, self._services, self._others = _by_owner(pods), _by_owner(services), _by_owner(others)

    def snapshot(self, document: Document, framework: Framework, settings: Config, now: datetime) -> Snapshot:
        """Return what a reconcile of this job would observe."""
        job = parse.job(document, framework, settings.job_defaults)
        owner = job.namespace, job.uid
        return Snapshot(
            job=job,
            framework=framework,
            job_defaults=settings.job_defaults,
            status=status_codec.parse_status(document),
            pods=self._pods[owner],
            services=self._services[owner],
            now=now,
            dependents=self._others[owner],
        )


def _by_owner(items: Iterable[ChildT]) -> defaultdict[Owner, tuple[ChildT, ...]]:
    found: defaultdict[Owner, tuple[ChildT, ...]] = defaultdict(tuple)
    groups: defaultdict[Owner, list[ChildT]] = defaultdict(list)
    for item in items:
        groups[owner_of(item)].append(item)
    found.update((owner, tuple(sorted(group, key=lambda item: item.name))) for owner, group in groups.items())
    return found


async def _snapshots(lister: Lister, settings: Config, namespace: str, now: datetime) -> Iterator[Snapshot]:
    """Return the snapshots of the jobs. A spec is decoded when its turn comes: all of them would fill the memory."""
    known = served(settings.mpi_version, settings.kinds)
    documents = [
        (document, framework)
        for framework in known
        for document in await lister.all(Path(framework.prefix, framework.plural, namespace), JOBS)
    ]
    # The children are listed after the jobs: objects created in between are then not reported as missing.
    children = ChildrenByOwner(
        await lister.all(Path(CORE, "pods", namespace), PODS, JOB_NAME_LABEL),
        await lister.all(Path(CORE, "services", namespace), SERVICES, JOB_NAME_LABEL),
        [
            item
            for kind in (*framework.owned_resources(known), *gang.resources(settings.job_defaults.gang_scheduler))
            for item in await lister.all(Path(kind.prefix, kind.plural, namespace), dependent_decoder(kind))
            # v1 puts no job label on these objects: the operator labels them, but uses v1's ServiceAccounts unchanged.
            if item.job or kind != SERVICE_ACCOUNTS
        ],
    )
    return (children.snapshot(with_spec(document), framework, settings, now) for document, framework in documents)


STEPS = """\
To migrate, stop training-operator v1 and start Trainshed: it takes over the existing jobs and pods. In this order:

  trainshed migrate --dry-run                    reports what will change; writes nothing
  kubectl --namespace kubeflow scale deployment/training-operator --replicas=0
  kubectl delete validatingwebhookconfiguration validator.training-operator.kubeflow.org
  kubectl replace -f crds/                       never with --force, which deletes all jobs
  kubectl apply -k manifests/                    or manifests/overlays/v1, with v1's names
  trainshed migrate --dry-run                    checks the result

docs/switching.md gives the reasons, other things to consider, and the way back."""
STATES = {State.OK: "green", State.ACTION_REQUIRED: "yellow", State.ERROR: "bold red"}
SEVERITY_STYLES = {
    Severity.UNCHANGED: ("unchanged", "green"),
    Severity.WILL_CHANGE: ("will change", "yellow"),
    Severity.NEEDS_ATTENTION: ("needs attention", "bold red"),
}
#: The width of the first column, in characters.
COLUMN = max(map(len, (*STATES, *(word for word, _ in SEVERITY_STYLES.values()))))


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what will change, without writing anything to the cluster.")
@click.option("--kubeconfig", default="", help="Path of the kubeconfig file.")
@click.option("--context", default="", help="Context of the kubeconfig (default: its current context).")
@click.option(
    "--namespace", default="", help="Namespace of the jobs to check (default: all that the operator watches)."
)
@click.argument("flags", nargs=-1)
def migrate(*, dry_run: bool, kubeconfig: str, context: str, namespace: str, flags: tuple[str, ...]) -> None:
    """Preview the migration from training-operator v1.

    Without --dry-run, print the steps of the migration and exit. With it, report the state of the cluster and what
    will change for each job.

    FLAGS, after --, are the flags of the operator to be started (default: the flags of v1's Deployment). The exit code
    is 1 if the cluster is in an error state or a job needs attention, and 0 otherwise.
    """
    if not dry_run:
        click.echo(STEPS)
        return
    try:
        report = asyncio.run(_inspect(find_credentials(kubeconfig, context), namespace, flags))
    except (NoCredentials, ApiError, OSError) as error:
        raise click.ClickException(foreign_text.one_line(f"cannot read the cluster: {error}")) from error
    _print(Console(soft_wrap=True, highlight=False), report)
    sys.exit(0 if report.ok else 1)


async def _inspect(credentials: Credentials, namespace: str, flags: tuple[str, ...]) -> Report:
    rest = RestClient(HttpTransport(credentials))
    try:
        now = datetime.now(UTC)  # noqa: TID251 - this command runs once, outside the operator and its clock
        return await inspect_cluster(Lister(rest), namespace, flags, now)
    finally:
        await rest.close()


def _print(console: Console, report: Report) -> None:
    """Print the report, with the most severe jobs last: they stay visible above the prompt."""
    console.print(Text("Cluster", "bold"))
    for check in report.checks:
        _line(console, check.state, STATES[check.state], check.message)
        if check.command:
            _line(console, "", "", f"  {check.command}")
    for message in report.settings.flag_warnings:
        _line(console, "flag", "yellow", message)
    console.print(Text("\nJobs", "bold"))
    for forecast in report.forecasts:
        label, colour = SEVERITY_STYLES[forecast.severity]
        _line(console, label, colour, str(forecast))
    console.print(Text(f"\n{_summary(report)}", "bold" if report.ok else "bold red"))


def _line(console: Console, label: str, colour: str, message: str) -> None:
    console.print(Text.assemble((f"  {label:<{COLUMN}} ", colour), foreign_text.one_line(message)))


def _summary(report: Report) -> str:
    severities = Counter(forecast.severity for forecast in report.forecasts)
    counts = ", ".join(
        f"{word}: {severities[severity]}" for severity, (word, _) in SEVERITY_STYLES.items() if severities[severity]
    )
    jobs = f"{len(report.forecasts)} {'job' if len(report.forecasts) == 1 else 'jobs'}"
    if report.namespaces:
        jobs += f" in {listed(report.namespaces, 'namespace')}"
    states = Counter(check.state for check in report.checks)
    cluster = ", ".join(f"{state}: {states[state]}" for state in (State.ERROR, State.ACTION_REQUIRED))
    return f"{jobs}{f' ({counts})' if counts else ''}; cluster ({cluster}). Nothing was written."

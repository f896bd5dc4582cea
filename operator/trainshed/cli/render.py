"""`trainshed render`: print every object that the operator creates for a job, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TextIO

import click
import yaml
from rich.console import Console
from rich.syntax import Syntax

from trainshed.api import parse
from trainshed.api.actions import CreateDependent, CreatePod, CreateService, CreateSshSecret, Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document, Job
from trainshed.api.status import Status
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS
from trainshed.plan import plan

KINDS = {(known.api_version, known.kind): known for known in (*FRAMEWORKS, *MPI_VERSIONS.values())}
CREATIONS = (CreateSshSecret, CreateDependent, CreateService, CreatePod)


class Plain(yaml.SafeDumper):
    """Writes repeated values in full instead of YAML aliases, as kubectl does."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: no value is written as an alias."""
        del data
        return True


@click.command()
@click.option(
    "-f", "--filename", "file", type=click.File("r"), required=True, help="File with jobs; - reads standard input."
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of jobs that do not set it.")
@click.option(
    "--cluster-domain",
    default="",
    envvar="CUSTOM_CLUSTER_DOMAIN",
    help="Cluster domain of the Service names in TF_CONFIG.",
)
def render(file: TextIO, namespace: str, cluster_domain: str) -> None:
    """Print the objects that the operator creates for jobs.

    A suspended job is printed as if it were resumed. The exit code is 1 if the spec of a job is invalid.
    """
    jobs = _jobs(file)
    if not jobs:
        raise click.ClickException(
            f"{file.name} contains no job; known kinds are {', '.join(dict.fromkeys(kind for _, kind in KINDS))}"
        )
    valid = True
    for document in jobs:
        job, objects = _objects(document, namespace, JobDefaults(cluster_domain=cluster_domain))
        for problem in job.problems:
            click.echo(f"{job.kind} {job.name or '(no name)'}: {problem}", err=True)
        _print(objects)
        valid = valid and not job.problems
    sys.exit(0 if valid else 1)


def _jobs(file: TextIO) -> list[Document]:
    try:
        read_documents = [document for document in yaml.safe_load_all(file) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file.name} is not valid YAML: {error}") from error
    documents = [item for document in read_documents for item in _items(document)]
    return [item for item in documents if _head(item) in KINDS]


def _head(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion")), str(document.get("kind"))


def _items(document: Document) -> list[Document]:
    if document.get("kind") != "List":
        return [document]
    return [item for item in document.get("items") or () if isinstance(item, dict)]


def _print(objects: list[Document]) -> None:
    if not objects:
        return
    text = yaml.dump_all(objects, Dumper=Plain, sort_keys=False, explicit_start=True, width=1_000_000)
    if sys.stdout.isatty():
        Console().print(Syntax(text.rstrip(), "yaml", theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        click.echo(text, nl=False)


def _objects(document: Document, namespace: str, job_defaults: JobDefaults) -> tuple[Job, list[Document]]:
    framework = KINDS[_head(document)]
    metadata = document.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    generated = {"name": f"{given['generateName']}xxxxx"} if "generateName" in given else {}
    job = parse.job({**document, "metadata": {"namespace": namespace, **generated, **given}}, framework, job_defaults)
    if job.problems:
        return job, []
    active = replace(job, policy=replace(job.policy, suspend=False, managed_elsewhere=False))
    ungated = replace(framework, hooks=replace(framework.hooks, start_after=lambda _job, _member: ""))
    snapshot = Snapshot(active, ungated, job_defaults, Status(), (), (), datetime.fromtimestamp(0, UTC))
    created = (action for action in plan(snapshot).actions if isinstance(action, CREATIONS))
    return job, list(_in_namespace((action.body for action in created), job.namespace))


def _in_namespace(bodies: Iterator[Document], namespace: str) -> Iterator[dict[str, Any]]:
    for body in bodies:
        metadata = {"name": body["metadata"]["name"], "namespace": namespace, **body["metadata"]}
        yield {**body, "metadata": metadata}

"""`trainshed render`: every object that a job will become, without a cluster."""

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

from trainshed.api import read
from trainshed.api.actions import CreateDependent, CreateKeys, CreatePod, CreateService
from trainshed.api.job import Document, Job
from trainshed.api.site import Site
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Status
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS
from trainshed.plan import plan

KINDS = {(known.api_version, known.kind): known for known in (*FRAMEWORKS, *MPI_VERSIONS.values())}
MAKES = (CreateKeys, CreateDependent, CreateService, CreatePod)


class Plain(yaml.SafeDumper):
    """Writes a value out again wherever it stands, as kubectl does."""

    def ignore_aliases(self, data: object) -> bool:
        """Every value is written out."""
        del data
        return True


@click.command()
@click.option("-f", "--filename", "file", type=click.File("r"), required=True, help="A file of jobs; - is the input.")
@click.option("-n", "--namespace", default="default", show_default=True, help="For jobs that do not name one.")
@click.option("--cluster-domain", default="", envvar="CUSTOM_CLUSTER_DOMAIN", help="What follows svc in TF_CONFIG.")
def render(file: TextIO, namespace: str, cluster_domain: str) -> None:
    """Print every pod, Service and other object that the jobs in a file will become, suspended or not."""
    jobs = _jobs(file)
    if not jobs:
        raise click.ClickException(
            f"{file.name} holds no job of the kinds {', '.join(dict.fromkeys(kind for _, kind in KINDS))}"
        )
    sound = True
    for document in jobs:
        job, objects = _become(document, namespace, Site(cluster_domain=cluster_domain))
        for problem in job.problems:
            click.echo(f"{job.kind} {job.name or '(without a name)'}: {problem}", err=True)
        _print(objects)
        sound = sound and not job.problems
    sys.exit(0 if sound else 1)


def _jobs(file: TextIO) -> list[Document]:
    try:
        found = [document for document in yaml.safe_load_all(file) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file.name} is not YAML: {error}") from error
    documents = [item for document in found for item in _items(document)]
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


def _become(document: Document, namespace: str, site: Site) -> tuple[Job, list[Document]]:
    framework = KINDS[_head(document)]
    metadata = document.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    generated = {"name": f"{known['generateName']}xxxxx"} if "generateName" in known else {}
    job = read.job({**document, "metadata": {"namespace": namespace, **generated, **known}}, framework, site)
    if job.problems:
        return job, []
    at_large = replace(job, policy=replace(job.policy, suspend=False, managed_elsewhere=False))
    together = replace(framework, hooks=replace(framework.hooks, start_after=lambda _job, _member: ""))
    snapshot = Snapshot(at_large, together, site, Status(), (), (), datetime.fromtimestamp(0, UTC))
    made = (action for action in plan(snapshot).actions if isinstance(action, MAKES))
    return job, list(_in_namespace((action.body for action in made), job.namespace))


def _in_namespace(bodies: Iterator[Document], namespace: str) -> Iterator[dict[str, Any]]:
    for body in bodies:
        metadata = {"name": body["metadata"]["name"], "namespace": namespace, **body["metadata"]}
        yield {**body, "metadata": metadata}

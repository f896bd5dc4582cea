"""`trainshed render`: every object that a job will become, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

import click
import yaml

from trainshed.api import read
from trainshed.api.actions import CreateConfigMap, CreatePod, CreateService
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.site import Site
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Status
from trainshed.frameworks import FRAMEWORKS
from trainshed.plan import plan

KINDS = {framework.kind: framework for framework in FRAMEWORKS}
MAKES = (CreateConfigMap, CreateService, CreatePod)


class Plain(yaml.SafeDumper):
    """Writes a value out again wherever it stands, as kubectl does."""

    def ignore_aliases(self, data: object) -> bool:
        """Every value is written out."""
        del data
        return True


@click.command()
@click.option("-f", "--filename", "file", type=click.File("r"), required=True, help="A file of jobs; - is the input.")
@click.option("-n", "--namespace", default="default", show_default=True, help="For jobs that do not name one.")
def render(file: TextIO, namespace: str) -> None:
    """Print every pod, Service and ConfigMap that the jobs in a file will become."""
    try:
        documents = [found for found in yaml.safe_load_all(file) if isinstance(found, dict)]
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file.name} is not YAML: {error}") from error
    jobs = [document for document in documents if document.get("kind") in KINDS]
    if not jobs:
        raise click.ClickException(f"{file.name} holds no job of the kinds {', '.join(KINDS)}")
    sound = True
    for document in jobs:
        objects, problems = _become(document, KINDS[document["kind"]], namespace)
        for problem in problems:
            click.echo(f"{document['kind']} {document['metadata'].get('name')}: {problem}", err=True)
        if objects:
            yaml.dump_all(objects, sys.stdout, Dumper=Plain, sort_keys=False, explicit_start=True, width=1_000_000)
        sound = sound and not problems
    sys.exit(0 if sound else 1)


def _become(document: Document, framework: Framework, namespace: str) -> tuple[list[Any], tuple[str, ...]]:
    metadata = {"namespace": namespace, **(document.get("metadata") or {})}
    job = read.job({**document, "metadata": metadata}, framework, Site())
    if job.problems:
        return [], job.problems
    snapshot = Snapshot(job, framework, Site(), Status(), (), (), datetime.fromtimestamp(0, UTC))
    made = (action for action in plan(snapshot).actions if isinstance(action, MAKES))
    return list(_in_namespace((action.body for action in made), job.namespace)), ()


def _in_namespace(bodies: Iterator[Document], namespace: str) -> Iterator[dict[str, Any]]:
    for body in bodies:
        metadata = {"name": body["metadata"]["name"], "namespace": namespace, **body["metadata"]}
        yield {**body, "metadata": metadata}

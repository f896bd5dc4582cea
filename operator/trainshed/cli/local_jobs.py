"""The jobs that commands run on this machine: read from files, with what they refer to, after a question about URLs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document
from trainshed.frameworks import ALL_VERSIONS
from trainshed.local.options import LocalJob, check_size
from trainshed.local.output import printable
from trainshed.local.run import INTERRUPTED
from trainshed.manifests.manifest import Manifest
from trainshed.rendering import RenderedObjects

from . import download, sources, trainjobs

#: Kinds that jobs refer to; others in the file are left out.
KINDS = (("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "PersistentVolumeClaim"))
#: How many images, commands, paths and claims of jobs from a URL are shown, and how many characters of each.
SHOWN, SHOWN_LENGTH = 10, 200
#: The options that all commands with such jobs have.
in_namespace = click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of objects without one."
)
with_python = click.option(
    "--python", default="", help="Virtual environment or interpreter that stands for the image's Python."
)


def read(
    files: tuple[str, ...], *, recursive: bool, namespace: str, unasked: bool
) -> tuple[list[LocalJob], list[Document]]:
    """Return the jobs of files and the objects that they may refer to.

    Ends the program if a job is invalid, or if the user does not want one from a URL: that is a question unless
    `unasked`.
    """
    found = sources.selected(files, recursive=recursive, also=lambda all_: trainjobs.as_jobs(all_, namespace))
    read_jobs = jobs(found.jobs, namespace)
    others = [item for item in found.others if item.head in KINDS]
    sources.print_left_out(item for item in found.others if item.head not in KINDS)
    if (urls := [file for file in files if download.is_url(file)]) and not unasked:
        ask(urls, [pod for job in read_jobs for pod in job.pods])
    return read_jobs, [placed(item.document, namespace) for item in others]


def ask(urls: list[str], pods: list[Document]) -> None:
    """Say what the jobs of these URLs may do, and end the program unless the user wants that."""
    click.echo(foreign_jobs(urls, pods), err=True)
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise click.ClickException("read the file, and add --yes to run jobs from a URL")
    try:
        wanted = click.confirm("Run them?", err=True)
    except click.Abort as error:  # click raises it at the end of the input too
        if isinstance(error.__context__, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise
    if not wanted:
        sys.exit(1)


def foreign_jobs(urls: list[str], pods: list[Document]) -> str:
    """Return what jobs from URLs may do on this machine."""
    containers = [
        container
        for pod in pods
        for part in ("initContainers", "containers")
        for container in pod["spec"].get(part) or ()
    ]
    volumes = [volume for pod in pods for volume in pod["spec"].get("volumes") or ()]
    words = [" ".join(map(str, (*(item.get("command") or ()), *(item.get("args") or ())))) for item in containers]
    found = {
        "images": [item.get("image") for item in containers],
        "commands": words,
        "host paths": [(volume.get("hostPath") or {}).get("path") for volume in volumes],
        "claims": [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes],
    }
    warning = (
        f"{', '.join(map(printable, urls))}: the author of this runs commands as you on this machine. Without docker or"
        " podman these can read, change and send all that you can; with them, what is in the images, host paths and"
        " claims, which other jobs may have filled."
    )
    return "\n".join((warning, *(f"  {title}: {_some(items)}" for title, items in found.items() if any(items))))


def _some(items: Iterable[object]) -> str:
    """Return different values in one line, not more than some, each not longer than some characters."""
    known = [printable(item) for item in dict.fromkeys(items) if item]
    shown = [item if len(item) <= SHOWN_LENGTH else f"{item[:SHOWN_LENGTH]}…" for item in known[:SHOWN]]
    return "; ".join(shown) + (f"; and {len(known) - SHOWN} more" if len(known) > SHOWN else "")


def placed(document: Document, namespace: str) -> Document:
    """Return an object in a namespace; metadata that is none is left as it is, and refused later."""
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        return document
    return {**document, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}}


def jobs(manifests: Iterable[Manifest], namespace: str) -> list[LocalJob]:
    """Return the jobs to run; ends the program after printing what is wrong with them, as `render` does."""
    found = [(manifest, sources.rendered(manifest, namespace, JobDefaults())) for manifest in manifests]
    places: dict[tuple[str, ...], str] = {}
    rendered: list[tuple[Manifest, RenderedObjects]] = []
    for manifest, objects in found:
        if objects is None:
            sys.exit(1)
        key = (objects.job.kind, objects.job.namespace, objects.job.name)
        if key in places:
            name = f"{objects.job.kind} {objects.job.namespace}/{objects.job.name}"
            raise click.ClickException(printable(f"{manifest.place}: {name} is given twice, first in {places[key]}"))
        places[key] = manifest.place
        rendered.append((manifest, objects))
    check_size(objects.job for _, objects in rendered)  # before the pods are built, which may be 100,000
    return [made(manifest.document, objects, namespace) for manifest, objects in rendered]


def made(document: Document, found: RenderedObjects, namespace: str) -> LocalJob:
    """Return a job that can run, with its objects."""
    own = placed(rendering.without_nulls(document), namespace)
    named = {**own, "metadata": {**own["metadata"], "name": found.job.name}}
    objects = tuple(found)
    pods = tuple(item for item in objects if item["kind"] == "Pod")
    others = tuple(item for item in objects if item["kind"] != "Pod")
    return LocalJob(named, found.job, ALL_VERSIONS[document["apiVersion"], document["kind"]], pods, others)

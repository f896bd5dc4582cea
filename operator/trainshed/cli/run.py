"""`trainshed run`: run jobs on this machine, without a cluster."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from traceback import print_exception
from types import TracebackType
from typing import Any

import click

from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document
from trainshed.frameworks import ALL_VERSIONS
from trainshed.local import run as local_run
from trainshed.local.failure_injection import InjectedFailure
from trainshed.local.failure_injection import parse as parse_failure
from trainshed.local.options import RUNTIMES, LocalJob, Options, Refused, Shown, ShownRun, check_size
from trainshed.local.output import printable
from trainshed.local.runtimes.python import NoPython
from trainshed.local.state_folder import Unusable, default_place
from trainshed.local.tasks import described
from trainshed.manifests.manifest import Manifest
from trainshed.process import TextFormatter
from trainshed.rendering import RenderedObjects

from . import download, sources

#: Kinds that jobs refer to; others in the file are left out.
KINDS = (("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "PersistentVolumeClaim"))
#: How many images, commands, paths and claims of jobs from a URL are shown, and how many characters of each.
SHOWN, SHOWN_LENGTH = 10, 200


def _failures(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[InjectedFailure, ...]:
    try:
        return tuple(map(parse_failure, values))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@sources.filename
@sources.recursive
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of objects without one.")
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="auto",
    show_default=True,
    help="How replicas run. auto is namespaces if this machine permits them, else processes. docker and podman use the"
    " images of the job.",
)
@click.option("--python", default="", help="Virtual environment or interpreter that stands for the image's Python.")
@click.option("--only", multiple=True, help="Replica whose output is printed, such as worker-0. May be repeated.")
@click.option("--no-color", is_flag=True, help="Print without colors and without the status line.")
@click.option("--output", "form", type=click.Choice(("text", "json")), default="text", help="Form of the summary.")
@click.option(
    "--fail",
    "failures",
    multiple=True,
    callback=_failures,
    help="Kill a replica after a time, or at a line: worker-1@20s, worker-1@'step 100'.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False),
    default=None,
    help="Where the folder trainshed-runs is, with logs and claims (default: ~/.local/state).",
)
@click.option("--ui", "page", is_flag=True, help="Show the jobs in the browser, too; the page stays until Ctrl-C.")
@click.option("--yes", is_flag=True, help="Run jobs from a URL without asking.")
@click.option("-v", "--verbose", is_flag=True, help="Print where an unexpected error has occurred.")
def run(files: tuple[str, ...], *, recursive: bool, namespace: str, **options: Any) -> None:  # noqa: ANN401 - click's own
    r"""Run jobs on this machine, without a cluster.

    Replicas are processes, or containers of docker or podman. Restarts, deadlines, success and failure are decided as
    in a cluster. The exit code is 0 if all jobs succeeded, 1 if one failed, and 130 after Ctrl-C.
    Ctrl-\ shows what each rank is doing.
    """
    if not options["verbose"]:
        sys.excepthook = _print_sentence
        _quiet_loggers()
    try:
        code = local_run.run(_wanted(files, recursive=recursive, namespace=namespace, options=options))
    except (Refused, NoPython, Unusable, OSError) as error:
        if options["verbose"] and error.__cause__:
            print_exception(error.__cause__)
        text = described(error) if isinstance(error, OSError) else str(error)
        raise click.ClickException("\n".join(map(printable, text.splitlines()))) from error
    if code == local_run.INTERRUPTED:  # one more Ctrl-C would change the exit code while the interpreter ends
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _wanted(files: tuple[str, ...], *, recursive: bool, namespace: str, options: dict[str, Any]) -> Options:
    """Return what to run; end the program if a job is invalid, or if the user does not want a job from a URL."""
    if options["state"] == "":  # which `Path` takes for the current folder
        raise click.ClickException("--state needs the name of a folder")
    found = sources.selected(files, recursive=recursive)
    jobs = _jobs(found.jobs, namespace)
    others = [item for item in found.others if item.head in KINDS]
    sources.print_left_out(item for item in found.others if item.head not in KINDS)
    if (urls := [file for file in files if download.is_url(file)]) and not options["yes"]:
        _ask(urls, [pod for job in jobs for pod in job.pods])
    return Options(
        jobs=tuple(jobs),
        objects=tuple(_placed(item.document, namespace) for item in others),
        state=Path(options["state"] or default_place()).absolute(),
        runtime=options["runtime"],
        python=options["python"],
        only=options["only"],
        colour=_coloured(no_color=options["no_color"], json=options["form"] == "json"),
        json=options["form"] == "json",
        failures=options["failures"],
        page=_page() if options["page"] else None,
    )


def _page() -> Callable[[ShownRun], Shown]:
    """Return what shows jobs in a browser; it takes long to import."""
    from .local_page import local_page  # noqa: PLC0415

    return local_page


def _print_sentence(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    """Print an error that nothing has expected, in one sentence; the interpreter ends with exit code 1 then."""
    text = "Interrupted" if isinstance(error, KeyboardInterrupt) else f"Error: {described(error)}"
    click.echo(printable(text), err=True)


def _quiet_loggers() -> None:
    """Print warnings of the controller as plain lines, and no tracebacks: their errors end the run."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter("%(message)s"))
    handler.addFilter(lambda record: not record.exc_info)
    logging.getLogger().addHandler(handler)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of processes that have ended before they are killed


def _coloured(*, no_color: bool, json: bool) -> bool:
    """Return whether lines are printed in colours: on a terminal, unless the user wants none (https://no-color.org)."""
    stream = sys.stderr if json else sys.stdout
    return stream is not None and stream.isatty() and not no_color and not os.environ.get("NO_COLOR")


def _ask(urls: list[str], pods: list[Document]) -> None:
    """Say what the jobs of these URLs may do, and end the program unless the user wants that."""
    click.echo(foreign_jobs(urls, pods), err=True)
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise click.ClickException("read the file, and add --yes to run jobs from a URL")
    try:
        wanted = click.confirm("Run them?", err=True)
    except click.Abort as error:  # click raises it at the end of the input too
        if isinstance(error.__context__, KeyboardInterrupt):
            sys.exit(local_run.INTERRUPTED)
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


def _placed(document: Document, namespace: str) -> Document:
    """Return an object in a namespace; metadata that is none is left as it is, and refused later."""
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        return document
    return {**document, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace}}


def _jobs(manifests: Iterable[Manifest], namespace: str) -> list[LocalJob]:
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
    return [_job(manifest.document, objects, namespace) for manifest, objects in rendered]


def _job(document: Document, found: RenderedObjects, namespace: str) -> LocalJob:
    """Return a job that can run, with its objects."""
    placed = _placed(rendering.without_nulls(document), namespace)
    named = {**placed, "metadata": {**placed["metadata"], "name": found.job.name}}
    objects = tuple(found)
    pods = tuple(item for item in objects if item["kind"] == "Pod")
    others = tuple(item for item in objects if item["kind"] != "Pod")
    return LocalJob(named, found.job, ALL_VERSIONS[document["apiVersion"], document["kind"]], pods, others)

"""The manifests that `-f` names: files, folders, patterns, URLs and standard input, as for kubectl."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import ALL_VERSIONS
from trainshed.local import pod_validation
from trainshed.local.output import printable
from trainshed.manifests.manifest import Manifest
from trainshed.manifests.manifest import read as manifests_of
from trainshed.manifests.nodes import BadManifest
from trainshed.manifests.reader import LARGEST
from trainshed.rendering import KNOWN, RenderedObjects, Selection, select

from . import download

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
STANDARD_INPUT = "standard input"
#: The files of a folder that are read.
ENDINGS = (".json", ".yaml", ".yml")


def filenames(*, required: bool) -> Callable[[CommandT], CommandT]:
    """Return the option that names files; the command gets them as `files`."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        shell_complete=lambda _context, _option, unfinished: [CompletionItem(unfinished, type="file")],
        help="File, folder or URL with jobs; - reads standard input. May be repeated.",
    )


filename = filenames(required=True)
recursive = click.option("-R", "--recursive", is_flag=True, help="Read the folders in a folder as well.")


def selected(
    files: Iterable[str], *, recursive: bool, also: Callable[[Selection], Selection] | None = None
) -> Selection:
    """Return the jobs and other objects of files; raises `ClickException` if there is no job, or a file is invalid.

    `also` finds the jobs that TrainJobs among the other objects stand for.
    """
    names = tuple(files)
    try:
        found = select(manifest for name in names for manifest in _manifests(name, recursive=recursive))
        found = also(found) if also else found
    except BadManifest as error:
        raise click.ClickException(printable(error)) from error
    if not found.jobs:
        print_left_out(found.others)
        read = ", ".join(STANDARD_INPUT if name == "-" else printable(name) for name in names)
        raise click.ClickException(f"{read} contains no job; known kinds are {KNOWN}{', TrainJob' if also else ''}")
    return found


def rendered(
    manifest: Manifest, namespace: str, defaults: JobDefaults, *, with_pods: bool = False
) -> RenderedObjects | None:
    """Return a job and the objects of it, or None after printing where it stands and what is wrong with it.

    `with_pods` is whether a pod that the API server would refuse is wrong, too.
    """
    created = rendering.rendered(manifest.document, namespace, defaults)
    found = refused(created, with_pods=with_pods)
    for problem in found:
        click.echo(printable(f"{place_of(problem, manifest, created)}: {problem}"), err=True)
    return None if found else created


def refused(created: RenderedObjects, *, with_pods: bool) -> list[str]:
    """Return what the API server would refuse in a job, or else in its metadata and pods: object, path and problem."""
    job = created.job
    head = {"kind": job.kind, "metadata": {"name": job.name, "namespace": job.namespace, **created.texts}}
    return rendering.problems(job) or pod_validation.problems([head], created.outer_pods if with_pods else ())


def place_of(problem: str, manifest: Manifest, created: RenderedObjects) -> str:
    """Return where a problem of a job stands that `refused` has found; of one of a pod, in the template of its role."""
    subject, path, *_ = (*problem.split(": ", 2), "")
    kind, _, name = subject.partition(" ")
    if kind != "pod":
        return manifest.place_of(path)
    role = next((role for role, pods in created.pods.items() if name in (pods[0].name, pods[-1].name)), "")
    return manifest.place_of(f"spec.{ALL_VERSIONS[manifest.head].field}[{role}].template.{path}")


def print_left_out(manifests: Iterable[Manifest]) -> None:
    """Name objects that a command does not use."""
    for manifest in manifests:
        click.echo(printable(f"left out: {manifest} ({manifest.place})"), err=True)


def _manifests(name: str, *, recursive: bool) -> Iterator[Manifest]:
    """Yield the objects of all files of a name; raises `BadManifest` or `ClickException`."""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(LARGEST + 1) if sys.stdin else b""  # it was closed when the program began
            yield from manifests_of(content, STANDARD_INPUT)
        elif download.is_url(name):
            yield from manifests_of(download.download(name), name)
        else:
            for path in _paths(name, recursive=recursive):
                with path.open("rb") as file:
                    yield from manifests_of(file.read(LARGEST + 1), str(path))
    except OSError as error:
        raise click.ClickException(printable(f"cannot read {error.filename or name}: {error.strerror}")) from error
    except download.DownloadError as error:
        raise click.ClickException(printable(f"cannot read {download.without_login(name)}: {error}")) from error


def _paths(name: str, *, recursive: bool) -> Iterator[Path]:
    """Yield a file, the files of a folder in the order of their names, or those that a pattern matches."""
    if not name:  # which `Path` takes for the current folder
        raise click.ClickException("-f needs the name of a file")
    if not os.path.lexists(name) and (matches := sorted(glob.glob(name))):  # noqa: PTH207 - `name` may be absolute
        for match in matches:
            yield from _paths(match, recursive=recursive)
        return
    path = Path(name)
    if not path.is_dir():
        yield path
        return
    inside = path.rglob("*") if recursive else path.iterdir()
    found = sorted(item for item in inside if item.suffix in ENDINGS and not item.is_dir())
    if pipes := [item for item in found if item.exists() and not item.is_file()]:  # whose reader would wait without end
        raise click.ClickException(f"{printable(pipes[0])} is neither a file nor a folder")
    if not found:
        raise click.ClickException(f"{printable(name)} contains no file that ends in {', '.join(ENDINGS)}")
    yield from found

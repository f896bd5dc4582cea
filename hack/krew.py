"""Prints the manifest by which krew, kubectl's plugin manager, finds the archives of a release on each platform.

    PYTHONPATH=hack python -m krew VERSION URL ARCHIVE... --homepage=https://...

An archive has its platform at the end of its name, such as kubectl-trainshed_linux_amd64.tar.gz, and the program
kubectl-trainshed at its top. URL is the folder from which all of them will be downloaded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from trainshed.manifests.writer import write

NAME, PROGRAM = "trainshed", "kubectl-trainshed"
#: The platforms of krew for which there may be archives: its words for systems and processors are Go's.
PLATFORM = re.compile(r".+_(linux|darwin)_(amd64|arm64)\.(?:tar\.gz|zip)")
#: A version as krew wants it, with a v before it.
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
#: krew shows the first in a table, next to the names of all plugins, and the others as they are, on a terminal.
SHORT = "Submit, watch and explain Kubeflow training jobs"
DESCRIPTION = """\
Works with your rights on the training jobs of kubeflow.org/v1 (TFJob,
PyTorchJob, XGBoostJob, PaddleJob, JAXJob, MPIJob).

It lists jobs, says in words what has become of one and what to do, prints the
logs of all replicas and shows what each rank is doing. It submits, suspends,
restarts and scales jobs, says beforehand whether they fit, and runs them on
this machine without a cluster.
"""
CAVEATS = """\
To check whether the operator is installed well:
  $ kubectl trainshed doctor
To list all commands:
  $ kubectl trainshed --help
"""


def manifest(version: str, url: str, archives: Iterable[Path], homepage: str = "") -> dict[str, Any]:
    """Return the manifest of a version whose archives are these; raises `ValueError` for what krew would not take."""
    if not VERSION.fullmatch(version):
        raise ValueError(f"{version} is no version such as 1.2.3")
    platforms: dict[tuple[str, str], dict[str, Any]] = {}
    for archive in archives:
        found = PLATFORM.fullmatch(archive.name)
        if found is None:
            raise ValueError(f"{archive.name} does not end in a platform, such as _linux_amd64.tar.gz")
        system, processor = found.groups()
        if (system, processor) in platforms:
            raise ValueError(f"{archive.name} is the second archive for {system}/{processor}")
        platforms[system, processor] = {
            "selector": {"matchLabels": {"os": system, "arch": processor}},
            "uri": f"{url.rstrip('/')}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": PROGRAM,
        }
    if not platforms:
        raise ValueError("there is no archive")
    spec = {"version": f"v{version}"} | ({"homepage": homepage} if homepage else {})
    texts = {"shortDescription": SHORT, "description": DESCRIPTION, "caveats": CAVEATS}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {**spec, **texts, "platforms": [platforms[key] for key in sorted(platforms)]},
    }


@click.command()
@click.argument("version")
@click.argument("url")
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--homepage", default="", help="URL of the project, which the index of krew wants.")
def main(version: str, url: str, archives: tuple[Path, ...], homepage: str) -> None:
    """Print the manifest."""
    try:
        found = manifest(version, url, archives, homepage)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    click.echo(write([found]), nl=False)


if __name__ == "__main__":
    main()

"""The quick start, command by command as it stands on its page, from `kind create cluster` to its deletion."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.session import Session, walk
from testbed import archives, docker, images, kind
from testbed.binaries import binary
from testbed.steps import output

#: The name on the page; the cluster of the other tests has another name.
CLUSTER = "trainshed"
PROGRAMS = (("kind", "kind"), ("kube", "kubectl"), ("helm4", "helm"))


@pytest.fixture
def session(kubeconfig: str, tmp_path: Path) -> Iterator[Session]:
    """A shell with a docker engine and without a cluster; its leftovers are removed."""
    options = {
        f"kind create cluster --name {CLUSTER}": " ".join(kind.create_options()),
        "docker build": " ".join(kind.build_options()),
    }
    programs = [binary(group, name) for group, name in PROGRAMS]
    yield Session(tmp_path, None, "default", programs, environment=docker.environment(), options=options)
    command = [str(programs[0]), "delete", "cluster", "--name", CLUSTER, "--kubeconfig", str(tmp_path / "kubeconfig")]
    subprocess.run(command, check=True, capture_output=True, env=docker.environment())


def load(name: str, folder: Path) -> None:
    """Load the images that the page's cluster would pull."""
    archive = folder / "image.tar"
    archives.write(archive, [images.stand_in(name)])
    command = [binary("kind", "kind"), "load", "image-archive", archive, "--name", CLUSTER]
    output(command, docker.environment())
    archive.unlink()


def test_the_quick_start_goes_as_its_page_says(session: Session, tmp_path: Path) -> None:
    ran = 0
    for block in walk(session, "docker", "kind", "cluster", "helm", "nothing"):
        ran += 1
        if any(step.command.startswith("kind create") for step in block.steps) and kind.without_registry():
            load(images.PYTORCH, tmp_path)
    assert ran >= 6

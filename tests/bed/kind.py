"""The cluster where docker runs: kind, with a kubeconfig of our own."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from .binaries import binary
from .images import OPEN_MPI
from .places import HERE, ROOT, state
from .steps import output, run, step

NAME = "trainshed"


def kubeconfig() -> Path:
    """Where the kubeconfig is; never the user's own."""
    return state() / "kind.kubeconfig"


@cache
def works() -> bool:
    """Whether a docker engine answers."""
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], check=False, capture_output=True, timeout=30).returncode == 0


def status() -> bool:
    """Say whether the cluster is up, and whether it is."""
    there = NAME in output([binary("kind", "kind"), "get", "clusters"]).split()
    print(f"The cluster is {'up' if there else 'not up'} (kind).")
    return there


def up() -> Path:
    """Bring the cluster up; the kubeconfig."""
    program = binary("kind", "kind")
    if NAME not in output([program, "get", "clusters"]).split():
        with step("creating a kind cluster (a minute or two)"):
            command = [program, "create", "cluster", "--config", HERE / "kind.yaml", "--kubeconfig", kubeconfig()]
            run([*command, "--wait", "120s"], state() / "kind.log", hint="docker info; docker system df")
        folder = ROOT / "examples" / "mpi"  # the one image of the examples that nobody has published
        build(OPEN_MPI, folder / "Dockerfile", folder)
    return kubeconfig()


def down() -> None:
    """Take the cluster down."""
    run(
        [binary("kind", "kind"), "delete", "cluster", "--name", NAME, "--kubeconfig", kubeconfig()],
        state() / "kind.log",
    )
    print("The cluster is down.")


def build(reference: str, dockerfile: Path, context: Path) -> None:
    """Build an image with docker and load it into the cluster."""
    with step(f"building {reference}"):
        run(["docker", "build", "-t", reference, "-f", dockerfile, context], state() / "kind.log")
        run([binary("kind", "kind"), "load", "docker-image", reference, "--name", NAME], state() / "kind.log")

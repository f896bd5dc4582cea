"""`python -m testbed`: start, stop and inspect the test cluster, and load images into it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from . import binaries, docker, images, kind
from .control_plane import ControlPlane
from .places import ROOT, state
from .processes import strays, sweep
from .releases import OLDER
from .steps import StepFailed, fail


@click.group()
def bed() -> None:
    """A real Kubernetes on this machine, for Trainshed's tests and demo."""


@bed.command()
@click.option("--size", type=click.Choice(["nodes", "control-plane"]), default="nodes", show_default=True)
@click.option("--image", default="", help="Build this image from the Dockerfile and load it.")
@click.option(
    "--all-images",
    is_flag=True,
    help="Load all images of examples and tests that the cluster cannot pull, but for Horovod's.",
)
@click.argument("manifests", type=Path, nargs=-1)
def up(size: str, image: str, manifests: tuple[Path, ...], *, all_images: bool) -> None:
    """Start the cluster; parts that run already stay as they are.

    Images that the manifests name and that the cluster cannot pull are loaded into it.
    """
    began = time.monotonic()
    if size == "control-plane":
        plane = ControlPlane(state() / "bare-control-plane", controllers=True, tied=False)
        plane.start()
        where = plane.kubeconfig
    else:
        kind.up(image, images.common() if all_images else _named(manifests))
        where = kind.kubeconfig()
    print(f"The cluster is up ({time.monotonic() - began:.0f} s). kubectl --kubeconfig {where} get nodes")


@bed.command()
def down() -> None:
    """Take the cluster down, and leave nothing of it running."""
    ControlPlane(state() / "bare-control-plane").stop()
    kind.down()
    docker.stop()
    sweep(binaries.servers(), state())
    left = [f"{name} (process {pid})" for pid, name in strays(binaries.servers(), state()).items()]
    if left:
        raise StepFailed(f"still there: {', '.join(left)}. Try: make cluster-down once more")
    print("The cluster is down; nothing of it is left running.")


@bed.command()
def status() -> None:
    """Say whether the cluster is up; exit code 1 if it is not."""
    if not kind.exists():
        print("The cluster is not up.")
        sys.exit(1)
    lines = kind.nodes()
    print("\n".join(lines) or "The cluster is there, and its API server does not answer. Try: make cluster")
    sys.exit(0 if lines else 1)


@bed.command()
def kubeconfig() -> None:
    """Print where the kubeconfig is."""
    print(kind.kubeconfig())


@bed.command()
def kubectl() -> None:
    """Print where kubectl is, built if need be."""
    print(binaries.binary("kube", "kubectl"))


@bed.command()
@click.option("--version", type=click.Choice(["3", "4"]), default="4", show_default=True)
def helm(version: str) -> None:
    """Print where helm is, built if need be."""
    print(binaries.binary(f"helm{version}", "helm"))


@bed.command()
def releases() -> None:
    """Print the older releases of Kubernetes on which tests can run."""
    print(" ".join(OLDER))


@bed.command()
@click.argument("reference")
@click.option("--dockerfile", type=Path, default=ROOT / "Dockerfile")
@click.option("--context", type=Path, default=ROOT)
def image(reference: str, dockerfile: Path, context: Path) -> None:
    """Build an image from a Dockerfile and load it into the cluster, which is started first."""
    kind.up()
    kind.build(reference, dockerfile, context)


@bed.command()
@click.argument("manifests", type=Path, nargs=-1)
def load(manifests: tuple[Path, ...]) -> None:
    """Load those images of these manifests that the cluster cannot pull."""
    kind.load(_named(manifests))


def _named(manifests: tuple[Path, ...]) -> list[str]:
    return images.named("\n".join(manifest.read_text() for manifest in manifests))


if __name__ == "__main__":
    try:
        bed(standalone_mode=False)
    except StepFailed as error:
        sys.exit(fail(error))
    except click.ClickException as error:
        error.show()
        sys.exit(2)

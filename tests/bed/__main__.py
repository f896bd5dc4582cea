"""`python -m bed`: the cluster up, down, how it is, and images into it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from . import binaries, kind
from .cluster import Cluster
from .control_plane import ControlPlane
from .places import ROOT, state
from .steps import StepFailed, fail


@click.group()
def bed() -> None:
    """A real Kubernetes on this machine, for Trainshed's tests and demo."""


@bed.command()
@click.option("--size", type=click.Choice(["node", "control-plane"]), default="node", show_default=True)
def up(size: str) -> None:
    """Bring the cluster up; what is up already is left alone."""
    began = time.monotonic()
    if size == "control-plane":
        plane = ControlPlane(state() / "bare-control-plane", controllers=True, tied=False)
        plane.start()
        where = plane.kubeconfig
    elif kind.works():
        where = kind.up()
    else:
        cluster = Cluster()
        cluster.up()
        where = cluster.kubeconfig
    print(f"The cluster is up ({time.monotonic() - began:.0f} s). kubectl --kubeconfig {where} get nodes")


@bed.command()
def down() -> None:
    """Take the cluster down, and leave nothing of it running."""
    ControlPlane(state() / "bare-control-plane").stop()
    if kind.works():
        kind.down()
        return
    cluster = Cluster()
    cluster.down()
    left = cluster.left()
    if left:
        raise StepFailed(f"still there: {', '.join(left)}. Try: make cluster-down once more")
    print("The cluster is down; nothing of it is left running.")


@bed.command()
def status() -> None:
    """Say whether the cluster is up; exit code 1 if it is not."""
    if kind.works():
        sys.exit(0 if kind.status() else 1)
    cluster = Cluster()
    if cluster.running():
        print(f"The cluster is up. kubectl --kubeconfig {cluster.kubeconfig} get nodes")
        return
    print("The cluster is not up.")
    if left := cluster.left():
        print(f"Not running: {', '.join(cluster.missing()) or 'nothing, but the node is not ready'}.")
        print(f"There is: {', '.join(left)}.\nTry: make cluster to mend it, or make cluster-down to clear it away.")
    sys.exit(1)


@bed.command()
def kubeconfig() -> None:
    """Print where the kubeconfig is."""
    print(kind.kubeconfig() if kind.works() else Cluster().kubeconfig)


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
def tools() -> None:
    """Build the cluster's programs."""
    binaries.everything()


@bed.command()
@click.argument("reference")
@click.option("--dockerfile", type=Path, default=ROOT / "Dockerfile")
@click.option("--context", type=Path, default=ROOT)
def image(reference: str, dockerfile: Path, context: Path) -> None:
    """Build an image from a Dockerfile and load it into the cluster, which is brought up first."""
    if kind.works():
        kind.up()
        kind.build(reference, dockerfile, context)
        return
    cluster = Cluster()
    if not cluster.running():
        cluster.up()
    cluster.build(reference, dockerfile, context)


if __name__ == "__main__":
    try:
        bed(standalone_mode=False)
    except StepFailed as error:
        sys.exit(fail(error))
    except click.ClickException as error:
        error.show()
        sys.exit(2)
